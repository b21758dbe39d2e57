#pragma once

#include "core/buffer.hpp"
#include "core/matrix.hpp"
#include "core/thread_pool.hpp"

namespace heliograph::cpu {

/// Dense matrix products on the CPU threads of one rank. The number of threads does not change
/// their bits. Scratch grows to the size that the largest product needs and is kept.
class Gemm {
 public:
  /// `account` (may be null) counts the scratch; it and `threads` must outlive the object.
  Gemm(ThreadPool& threads, MemoryAccount* account) : threads_(threads), account_(account) {}

  /// c = a b, or c += a b to accumulate; with `transpose_b`, b is given as its transpose. With
  /// `fp64`, sums are fp64 and rounded once.
  void multiply(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate,
                MatrixView c, bool fp64);

  /// g = a^T d with a: n x g.rows and d: n x g.cols; sums are fp64 if g.f64 is set.
  void gradient(ConstMatrixView a, ConstMatrixView d, GradientView g);

 private:
  float* scratch(std::int64_t floats);
  void gradient_fp64(ConstMatrixView a, ConstMatrixView d, GradientView g);

  ThreadPool& threads_;
  MemoryAccount* account_;
  Buffer scratch_;
};

/// Name of the instruction set that this process uses for fp64 products.
const char* gemm_variant();

}  // namespace heliograph::cpu
