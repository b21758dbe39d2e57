#pragma once

#include "core/matrix.hpp"
#include "core/thread_pool.hpp"

namespace heliograph::cpu {

/// Where a weight gradient is summed: exactly one of the two is set. Row-major, no padding.
struct GradientView {
  float* f32 = nullptr;
  double* f64 = nullptr;  ///< `--reproducible`: kept in fp64 until ranks are summed.
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

/// c = a b, or c += a b; with `transpose_b`, b is given as its transpose. fp64 sums every product
/// in double and rounds once. Row tiles are fixed, so threads do not change the bits.
void gemm(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate, MatrixView c,
          bool fp64, ThreadPool& threads);

/// g = a^T d (a: n x g.rows, d: n x g.cols): fp64 if g.f64 is set.
void gemm_gradient(ConstMatrixView a, ConstMatrixView d, GradientView g, ThreadPool& threads);

/// Name of the instruction set that was chosen at run time.
const char* gemm_variant();

}  // namespace heliograph::cpu
