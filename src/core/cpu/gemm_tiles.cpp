// Compiled once for each instruction set (src/GemmVariants.cmake), with Eigen's namespace renamed.
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_NO_DEBUG

#include "core/cpu/gemm_tiles.hpp"

#include <Eigen/Core>

#define HELIOGRAPH_JOIN_2(a, b) a##b
#define HELIOGRAPH_JOIN(a, b) HELIOGRAPH_JOIN_2(a, b)
#define HELIOGRAPH_TEXT_2(a) #a
#define HELIOGRAPH_TEXT(a) HELIOGRAPH_TEXT_2(a)

namespace heliograph::cpu {
namespace {

template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Map = Eigen::Map<RowMajor<float>, 0, Eigen::OuterStride<>>;
using ConstMap = Eigen::Map<const RowMajor<float>, 0, Eigen::OuterStride<>>;

ConstMap map(ConstMatrixView m) { return {m.data, m.rows, m.cols, Eigen::OuterStride<>(m.stride)}; }
Map map(MatrixView m) { return {m.data, m.rows, m.cols, Eigen::OuterStride<>(m.stride)}; }

void product(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate,
             MatrixView c) {
  const RowMajor<double> left = map(a).cast<double>();
  RowMajor<double> right;
  if (transpose_b) {
    right = map(b).transpose().cast<double>();
  } else {
    right = map(b).cast<double>();
  }
  RowMajor<double> sum = left * right;
  if (accumulate) sum += map(c).cast<double>();
  map(c) = sum.cast<float>();
}

void gradient(ConstMatrixView a, ConstMatrixView d, double* g, std::int64_t ldg) {
  Eigen::Map<RowMajor<double>, 0, Eigen::OuterStride<>> out(g, a.cols, d.cols,
                                                            Eigen::OuterStride<>(ldg));
  out.setZero();
  constexpr std::int64_t kRows = 512;  // bounds the fp64 copies
  for (std::int64_t r = 0; r < a.rows; r += kRows) {
    const std::int64_t n = a.rows - r < kRows ? a.rows - r : kRows;
    const RowMajor<double> left = map(a.row_range(r, n)).cast<double>();
    const RowMajor<double> right = map(d.row_range(r, n)).cast<double>();
    out.noalias() += left.transpose() * right;
  }
}

}  // namespace

const GemmTiles& HELIOGRAPH_JOIN(gemm_tiles_, HELIOGRAPH_GEMM_VARIANT)() {
  static constexpr GemmTiles kTiles{HELIOGRAPH_TEXT(HELIOGRAPH_GEMM_VARIANT), product, gradient};
  return kTiles;
}

}  // namespace heliograph::cpu
