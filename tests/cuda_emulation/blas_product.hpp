#pragma once

#include <cublas_v2.h>

#include <cstddef>
#include <cstdint>
#include <functional>

// What the emulated cuBLAS and cublasLt share.

namespace heliograph::cuda_emulation {

/// What is multiplied, column-major: c = alpha op(a) op(b) + beta c + bias, op(a) m x k.
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
  const float* bias = nullptr;  ///< m values, one a row; null: none.
  bool from_the_end = false;    ///< The order of each sum.
};

/// Puts a product on a stream. Fails unless its matrices fit their strides and lie on a device.
cudaError_t enqueue_product(const Product& product, cudaStream_t stream);

/// Whether `handle` is in use, as cuBLAS's or cublasLt's.
bool is_blas_handle(const void* handle);

/// An api_call whose error is cuBLAS's.
cublasStatus_t blas_call(const char* function, const std::function<cudaError_t()>& body);

}  // namespace heliograph::cuda_emulation
