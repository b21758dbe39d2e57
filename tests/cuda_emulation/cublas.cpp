#include <cublas_v2.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "blas_product.hpp"
#include "core/cuda/blas_functions.hpp"
#include "runtime.hpp"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

namespace {
using namespace heliograph::cuda_emulation;

std::set<const void*>& handles() {
  static auto* const the = new std::set<const void*>;
  return *the;
}

/// What begins and ends a handle waits for the device.
cublasStatus_t handle_call(const char* function, const std::function<void()>& body) {
  return blas_call(function, [&] {
    if (!fits_captures_of(current_device)) return cudaErrorStreamCaptureUnsupported;
    body();
    return cudaSuccess;
  });
}

}  // namespace

extern "C" {

const char* cublasGetStatusString(cublasStatus_t status) {
  static const std::map<cublasStatus_t, const char*> texts = {
      {CUBLAS_STATUS_SUCCESS, "success"},
      {CUBLAS_STATUS_ALLOC_FAILED, "allocation failed"},
      {CUBLAS_STATUS_INVALID_VALUE, "invalid value"},
      {CUBLAS_STATUS_EXECUTION_FAILED, "execution failed"},
      {CUBLAS_STATUS_NOT_SUPPORTED, "not supported"}};
  return texts.at(status);
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  return handle_call("cublasCreate", [&] {
    *handle = new cublasContext;
    handles().insert(*handle);
  });
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  return handle_call("cublasDestroy", [&] {
    handles().erase(handle);
    delete handle;
  });
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t, void* workspace, std::size_t bytes) {
  return blas_call("cublasSetWorkspace", [&] {
    const bool aligned = reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0;
    return aligned && on_device(workspace, bytes) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return blas_call("cublasSetMathMode", [&] {
    handle->math = mode;
    return cudaSuccess;
  });
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t, cublasAtomicsMode_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transpose_a,
                           cublasOperation_t transpose_b, int m, int n, int k, const float* alpha,
                           const float* a, int lda, const float* b, int ldb, const float* beta,
                           float* c, int ldc) {
  const Product p{.tf32 = handle->math == CUBLAS_TF32_TENSOR_OP_MATH,
                  .transpose_a = transpose_a == CUBLAS_OP_T,
                  .transpose_b = transpose_b == CUBLAS_OP_T,
                  .m = m,
                  .n = n,
                  .k = k,
                  .alpha = *alpha,
                  .a = a,
                  .lda = lda,
                  .b = b,
                  .ldb = ldb,
                  .beta = *beta,
                  .c = c,
                  .ldc = ldc};
  return blas_call("cublasSgemm", [&] { return enqueue_product(p, handle->stream); });
}

}  // extern "C"

bool heliograph::cuda_emulation::is_blas_handle(const void* handle) {
  return handles().contains(handle);
}

// In place of core/cuda/load_cublas.cpp.
const heliograph::cuda::BlasFunctions& heliograph::cuda::blas_functions() {
  static const BlasFunctions functions{cublasGetStatusString,
                                       cublasCreate,
                                       cublasDestroy,
                                       cublasSetStream,
                                       cublasSetWorkspace,
                                       cublasSetMathMode,
                                       cublasSetAtomicsMode,
                                       cublasSgemm,
                                       cublasLtMatmulDescCreate,
                                       cublasLtMatmulDescDestroy,
                                       cublasLtMatmulDescSetAttribute,
                                       cublasLtMatrixLayoutCreate,
                                       cublasLtMatrixLayoutDestroy,
                                       cublasLtMatmulPreferenceCreate,
                                       cublasLtMatmulPreferenceDestroy,
                                       cublasLtMatmulPreferenceSetAttribute,
                                       cublasLtMatmulAlgoGetHeuristic,
                                       cublasLtMatmul};
  return functions;
}
