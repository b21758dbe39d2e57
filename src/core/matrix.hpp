#pragma once

#include <cstdint>

namespace heliograph {

/// Rows [begin, end) of a matrix.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  constexpr std::int64_t rows() const { return end - begin; }
};

/// Row-major matrix of T that it does not own. `stride` counts elements between row starts.
template <class T>
struct BasicMatrixView {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;

  constexpr T* row(std::int64_t r) const { return data + r * stride; }
  constexpr BasicMatrixView row_range(std::int64_t begin, std::int64_t count) const {
    return {data + begin * stride, count, cols, stride};
  }
  constexpr BasicMatrixView row_range(RowRange range) const {
    return row_range(range.begin, range.rows());
  }
  constexpr BasicMatrixView col_range(std::int64_t begin, std::int64_t count) const {
    return {data + begin, rows, count, stride};
  }
  constexpr operator BasicMatrixView<const T>() const  // NOLINT(google-explicit-constructor)
  {
    return {data, rows, cols, stride};
  }
};

using MatrixView = BasicMatrixView<float>;
using ConstMatrixView = BasicMatrixView<const float>;
/// Matrix of bf16 values, each the upper half of an fp32.
using Bf16View = BasicMatrixView<std::uint16_t>;
/// fp64 accumulator of `--reproducible`; data == nullptr means fp32 accumulation.
using AccumulatorView = BasicMatrixView<double>;

/// A weight gradient, row-major without padding. Exactly one of the two pointers is set.
struct GradientView {
  float* f32 = nullptr;
  double* f64 = nullptr;  ///< With `--reproducible`: fp64 until the sum over ranks.
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

/// Row stride in elements that lets every row of `cols` begin on a 64-byte line.
template <class T = float>
constexpr std::int64_t padded_stride(std::int64_t cols) {
  constexpr std::int64_t line = 64 / sizeof(T);
  return (cols + line - 1) / line * line;
}

}  // namespace heliograph
