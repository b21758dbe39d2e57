#include <cublas_v2.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/cuda/blas_functions.hpp"
#include "streams.hpp"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

namespace {
namespace emulation = heliograph::cuda_emulation;

/// What is multiplied, column-major: c = alpha op(a) op(b) + beta c, op(a) m x k.
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
};

/// To 10 bits behind the leading one, ties away from zero, as cvt.rna.tf32.f32 does.
float to_tf32(float x) {
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000U) & 0xffffe000U);
}

float factor(const Product& p, float x) { return p.tf32 ? to_tf32(x) : x; }
float factor_b(const Product& p, std::int64_t i, std::int64_t j) {
  return factor(p, p.transpose_b ? p.b[j + i * p.ldb] : p.b[i + j * p.ldb]);
}

void multiply(const Product& p) {
  std::vector<float> sums(static_cast<std::size_t>(p.m));
  for (std::int64_t j = 0; j < p.n; ++j) {
    std::fill(sums.begin(), sums.end(), 0.0F);
    if (p.transpose_a) {
      for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t l = 0; l < p.k; ++l) {
          sums[static_cast<std::size_t>(i)] += factor(p, p.a[l + i * p.lda]) * factor_b(p, l, j);
        }
      }
    } else {
      for (std::int64_t l = 0; l < p.k; ++l) {
        const float b = factor_b(p, l, j);
        const float* column = p.a + l * p.lda;
        for (std::int64_t i = 0; i < p.m; ++i) {
          sums[static_cast<std::size_t>(i)] += factor(p, column[i]) * b;
        }
      }
    }
    float* c = p.c + j * p.ldc;
    for (std::int64_t i = 0; i < p.m; ++i) {
      const float product = p.alpha * sums[static_cast<std::size_t>(i)];
      c[i] = p.beta == 0.0F ? product : product + p.beta * c[i];  // with 0, c is not read
    }
  }
}

cublasStatus_t status_of(cudaError_t error) {
  if (error == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
  if (error == cudaErrorInvalidValue) return CUBLAS_STATUS_INVALID_VALUE;
  if (error == cudaErrorMemoryAllocation) return CUBLAS_STATUS_ALLOC_FAILED;
  return CUBLAS_STATUS_EXECUTION_FAILED;
}

/// Bytes of a column-major matrix.
std::size_t extent(std::int64_t rows, std::int64_t cols, std::int64_t stride) {
  return rows == 0 || cols == 0
             ? 0
             : static_cast<std::size_t>((cols - 1) * stride + rows) * sizeof(float);
}

bool lies_there(const void* pointer, std::size_t bytes) {
  return bytes == 0 || emulation::on_device(pointer, bytes);
}

}  // namespace

extern "C" {

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "invalid value";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "execution failed";
  }
  return "unknown status";
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  return status_of(emulation::api_call("cublasCreate", [&] {
    *handle = new cublasContext;
    return cudaSuccess;
  }));
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t, void* workspace, std::size_t bytes) {
  return status_of(emulation::api_call("cublasSetWorkspace", [&] {
    const bool aligned = reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0;
    return aligned && emulation::on_device(workspace, bytes) ? cudaSuccess : cudaErrorInvalidValue;
  }));
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return status_of(emulation::api_call("cublasSetMathMode", [&] {
    handle->math = mode;
    return cudaSuccess;
  }));
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t, cublasAtomicsMode_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transpose_a,
                           cublasOperation_t transpose_b, int m, int n, int k, const float* alpha,
                           const float* a, int lda, const float* b, int ldb, const float* beta,
                           float* c, int ldc) {
  const Product p{handle->math == CUBLAS_TF32_TENSOR_OP_MATH,
                  transpose_a == CUBLAS_OP_T,
                  transpose_b == CUBLAS_OP_T,
                  m,
                  n,
                  k,
                  *alpha,
                  a,
                  lda,
                  b,
                  ldb,
                  *beta,
                  c,
                  ldc};
  return status_of(emulation::api_call("cublasSgemm", [&] {
    const std::int64_t a_rows = p.transpose_a ? p.k : p.m;
    const std::int64_t a_cols = p.transpose_a ? p.m : p.k;
    const std::int64_t b_rows = p.transpose_b ? p.n : p.k;
    const std::int64_t b_cols = p.transpose_b ? p.k : p.n;
    if (m < 0 || n < 0 || k < 0 || lda < std::max<std::int64_t>(1, a_rows) ||
        ldb < std::max<std::int64_t>(1, b_rows) || ldc < std::max(1, m) ||
        !lies_there(a, extent(a_rows, a_cols, lda)) ||
        !lies_there(b, extent(b_rows, b_cols, ldb)) || !lies_there(c, extent(m, n, ldc))) {
      return cudaErrorInvalidValue;
    }
    const std::shared_ptr<emulation::Stream> stream = emulation::find_stream(handle->stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    emulation::enqueue(*stream, emulation::Access::own_device, [p]() -> std::string {
      multiply(p);
      return {};
    });
    return cudaSuccess;
  }));
}

}  // extern "C"

// In place of core/cuda/load_cublas.cpp.
const heliograph::cuda::BlasFunctions& heliograph::cuda::blas_functions() {
  static const BlasFunctions functions{cublasGetStatusString, cublasCreate,       cublasDestroy,
                                       cublasSetStream,       cublasSetWorkspace, cublasSetMathMode,
                                       cublasSetAtomicsMode,  cublasSgemm};
  return functions;
}
