#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/cuda/blas_functions.hpp"
#include "core/cuda/runtime.hpp"
#include "core/matrix.hpp"

namespace heliograph::cuda {

/// Matrix products that add a bias to each row as they write it, by an epilogue of cublasLt. The
/// algorithm is chosen at the first product of a shape and kept, so that equal products give equal
/// bits.
class BiasProducts {
 public:
  /// `blas` and the workspace (device memory, 256-byte aligned) must outlive the object. All other
  /// uses of the workspace must be on the queue's stream.
  BiasProducts(Queue& queue, cublasHandle_t blas, void* workspace, std::size_t workspace_bytes);
  ~BiasProducts();
  BiasProducts(const BiasProducts&) = delete;
  BiasProducts& operator=(const BiasProducts&) = delete;

  /// c = a b + bias, or c += a b + bias to accumulate, with `bias`, c.cols values, added to every
  /// row. Returns false and does nothing if cublasLt has no algorithm for the shape or `bias` is
  /// not aligned to 16 bytes. Throws Error(resource).
  bool multiply(ConstMatrixView a, ConstMatrixView b, bool accumulate, const float* bias, bool tf32,
                MatrixView c);

 private:
  struct Shape;
  struct Plan;
  struct Product;
  const Plan& plan(const Shape& shape, const float* bias);
  /// LibraryWork::Ask for a Product of the BiasProducts object `products`.
  static void ask_now(void* products, const void* product, cudaStream_t stream);

  Queue& queue_;
  const BlasFunctions& functions_ = blas_functions();
  cublasLtHandle_t lt_;
  void* workspace_;
  std::size_t workspace_bytes_;
  std::vector<std::unique_ptr<Plan>> plans_;
};

}  // namespace heliograph::cuda
