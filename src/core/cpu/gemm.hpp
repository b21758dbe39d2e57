#pragma once

#include "core/buffer.hpp"
#include "core/matrix.hpp"
#include "core/thread_pool.hpp"

namespace heliograph::cpu {

/// Matrix products of one rank. Tiles of rows are fixed, so threads do not change the bits. The
/// scratch space grows with the largest product and is kept.
class Gemm {
 public:
  /// `account` (may be null) counts the scratch; it and `threads` must outlive the object.
  Gemm(ThreadPool& threads, MemoryAccount* account) : threads_(threads), account_(account) {}

  /// c = a b, or c += a b; with `transpose_b`, b is given as its transpose. fp64 sums every
  /// product in double and rounds once.
  void multiply(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate,
                MatrixView c, bool fp64);

  /// g = a^T d (a: n x g.rows, d: n x g.cols): fp64 if g.f64 is set.
  void gradient(ConstMatrixView a, ConstMatrixView d, GradientView g);

 private:
  float* scratch(std::int64_t floats);
  void gradient_fp64(ConstMatrixView a, ConstMatrixView d, GradientView g);

  ThreadPool& threads_;
  MemoryAccount* account_;
  Buffer scratch_;
};

/// Name of the instruction set that was chosen at run time for fp64 products.
const char* gemm_variant();

}  // namespace heliograph::cpu
