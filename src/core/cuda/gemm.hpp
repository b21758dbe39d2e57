#pragma once

#include <cstddef>
#include <memory>

#include "core/buffer.hpp"
#include "core/cuda/runtime.hpp"
#include "core/matrix.hpp"

namespace heliograph::cuda {

class BiasProducts;

/// Dense matrix products of one rank by cuBLAS, in fp32 throughout or with factors rounded to TF32
/// (10 mantissa bits) before they are multiplied. Equal products give equal bits.
class Gemm {
 public:
  /// `account` allocates and counts cuBLAS's workspace in device memory; it and `queue` must
  /// outlive the object. Throws Error(resource).
  Gemm(Queue& queue, bool tf32, MemoryAccount* account);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// While true, factors are not rounded to TF32.
  void set_exact(bool exact) { exact_ = exact; }

  /// c = a b, or c += a b to accumulate; with `transpose_b`, b is given as its transpose.
  void multiply(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate,
                MatrixView c);
  /// c = a b + bias, or c += a b + bias to accumulate, with `bias`, c.cols values, added to every
  /// row. Returns false and does nothing if cuBLAS cannot do both in one pass.
  bool multiply_with_bias(ConstMatrixView a, ConstMatrixView b, bool accumulate, const float* bias,
                          MatrixView c);
  /// g = a^T d: a.cols x d.cols, without padding between rows.
  void gradient(ConstMatrixView a, ConstMatrixView d, float* g);

 private:
  struct Handle;
  struct Product;
  void ask(const char* name, Product product);
  /// LibraryWork::Ask for a Product of the Gemm object `gemm`, on the stream that cuBLAS knows.
  static void ask_now(void* gemm, const void* product, cudaStream_t stream);
  bool rounds() const { return tf32_ && !exact_; }

  Queue& queue_;
  bool tf32_;
  bool exact_ = false;
  Buffer workspace_;
  std::unique_ptr<Handle> handle_;
  std::unique_ptr<BiasProducts> with_bias_;
};

}  // namespace heliograph::cuda
