#include "blas_product.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include "nccl_state.hpp"
#include "runtime.hpp"

namespace heliograph::cuda_emulation {
namespace {

/// To 10 bits behind the leading one, ties away from zero, as cvt.rna.tf32.f32 does.
float to_tf32(float x) {
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000U) & 0xffffe000U);
}

float factor(const Product& p, float x) { return p.tf32 ? to_tf32(x) : x; }
float factor_a(const Product& p, std::int64_t i, std::int64_t l) {
  return factor(p, p.transpose_a ? p.a[l + i * p.lda] : p.a[i + l * p.lda]);
}
float factor_b(const Product& p, std::int64_t l, std::int64_t j) {
  return factor(p, p.transpose_b ? p.b[j + l * p.ldb] : p.b[l + j * p.ldb]);
}

bool lies_there(const float* matrix, std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  if (rows < 0 || cols < 0 || stride < std::max<std::int64_t>(1, rows)) return false;
  if (rows == 0 || cols == 0) return true;
  return on_device(matrix, static_cast<std::size_t>((cols - 1) * stride + rows) * sizeof(float));
}

bool lies_there(const Product& p) {
  return lies_there(p.a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda) &&
         lies_there(p.b, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb) &&
         lies_there(p.c, p.m, p.n, p.ldc) &&
         (p.bias == nullptr || lies_there(p.bias, p.m, 1, std::max<std::int64_t>(1, p.m)));
}

void multiply(const Product& p) {
  std::vector<float> sums(static_cast<std::size_t>(p.m));
  for (std::int64_t j = 0; j < p.n; ++j) {
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (std::int64_t step = 0; step < p.k; ++step) {
      const std::int64_t l = p.from_the_end ? p.k - 1 - step : step;
      const float b = factor_b(p, l, j);
      for (std::int64_t i = 0; i < p.m; ++i) {
        sums[static_cast<std::size_t>(i)] += factor_a(p, i, l) * b;
      }
    }
    float* c = p.c + j * p.ldc;
    for (std::int64_t i = 0; i < p.m; ++i) {
      float value = p.alpha * sums[static_cast<std::size_t>(i)];
      if (p.beta != 0.0F) value += p.beta * c[i];  // with 0, c is not read
      c[i] = p.bias == nullptr ? value : value + p.bias[i];
    }
  }
}

}  // namespace

cudaError_t enqueue_product(const Product& product, cudaStream_t handle) {
  if (!lies_there(product)) return cudaErrorInvalidValue;
  const SharedStream stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  static std::set<std::tuple<bool, bool, bool, std::int64_t, std::int64_t, std::int64_t, bool>>
      loaded;
  const bool is_new = loaded
                          .emplace(product.tf32, product.transpose_a, product.transpose_b,
                                   product.m, product.n, product.k, product.bias != nullptr)
                          .second;
  if (is_new) nccl_emulation::require_no_messages("the first product of a shape");
  enqueue(*stream, Access::own_device, [product]() -> std::string {
    multiply(product);
    return {};
  });
  return cudaSuccess;
}

cublasStatus_t blas_call(const char* function, const std::function<cudaError_t()>& body) {
  const cudaError_t error = api_call(function, body);
  if (error == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
  if (error == cudaErrorInvalidValue) return CUBLAS_STATUS_INVALID_VALUE;
  if (error == cudaErrorMemoryAllocation) return CUBLAS_STATUS_ALLOC_FAILED;
  if (error == cudaErrorNotSupported) return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace heliograph::cuda_emulation
