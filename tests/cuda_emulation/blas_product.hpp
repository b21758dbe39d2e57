#pragma once

#include <cublas_v2.h>

#include <cstddef>
#include <cstdint>
#include <functional>

// Declarations that the emulated cuBLAS and the emulated cublasLt share.

namespace heliograph::cuda_emulation {

/// A product of column-major matrices: c = alpha op(a) op(b) + beta c + bias, where op(a) is m x k
/// and op(b) is k x n.
struct Product {
  bool tf32;
  bool transpose_a, transpose_b;
  std::int64_t m, n, k;
  float alpha;
  const float* a;
  std::int64_t lda;
  const float* b;
  std::int64_t ldb;
  float beta;
  float* c;
  std::int64_t ldc;
  const float* bias = nullptr;  ///< m values, one for each row; null if there is no bias.
  bool from_the_end = false;    ///< Whether each sum begins with its last term.
};

/// Enqueues a product on a stream. Fails unless the matrices fit their strides and lie on a device.
cudaError_t enqueue_product(const Product& product, cudaStream_t stream);

/// Whether `handle` is a handle of cuBLAS or cublasLt that is in use.
bool is_blas_handle(const void* handle);

/// Does the same as api_call, and returns the error as one of cuBLAS.
cublasStatus_t blas_call(const char* function, const std::function<cudaError_t()>& body);

}  // namespace heliograph::cuda_emulation
