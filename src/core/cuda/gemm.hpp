#pragma once

#include <cstddef>
#include <memory>

#include "core/buffer.hpp"
#include "core/cuda/runtime.hpp"
#include "core/matrix.hpp"

namespace heliograph::cuda {

/// Matrix products of one rank by cuBLAS, in fp32 throughout. The same products give the same bits.
class Gemm {
 public:
  /// `account` counts the scratch that cuBLAS gets, in device memory; it and `queue` must outlive
  /// the object. Throws Error(resource).
  Gemm(Queue& queue, MemoryAccount* account);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// c = a b, or c += a b; with `transpose_b`, b is given as its transpose.
  void multiply(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate,
                MatrixView c);
  /// g = a^T d, a.cols x d.cols, rows follow each other without padding.
  void gradient(ConstMatrixView a, ConstMatrixView d, float* g);

 private:
  struct Handle;

  Queue& queue_;
  Buffer workspace_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace heliograph::cuda
