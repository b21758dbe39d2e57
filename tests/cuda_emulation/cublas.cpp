#include <cublas_v2.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "blas_product.hpp"
#include "core/cuda/blas_functions.hpp"
#include "runtime.hpp"
#include "streams.hpp"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

namespace {
namespace emulation = heliograph::cuda_emulation;

std::set<const void*>& handles() {
  static auto* const the = new std::set<const void*>;
  return *the;
}

/// What begins and ends a handle waits for the device.
cublasStatus_t handle_call(const char* function, const std::function<void()>& body) {
  return emulation::blas_status(emulation::api_call(function, [&] {
    if (!emulation::fits_captures_of(emulation::current_device)) {
      return cudaErrorStreamCaptureUnsupported;
    }
    body();
    return cudaSuccess;
  }));
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
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "not supported";
  }
  return "unknown status";
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
  return emulation::blas_status(emulation::api_call("cublasSetWorkspace", [&] {
    const bool aligned = reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0;
    return aligned && emulation::on_device(workspace, bytes) ? cudaSuccess : cudaErrorInvalidValue;
  }));
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return emulation::blas_status(emulation::api_call("cublasSetMathMode", [&] {
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
  const emulation::Product p{handle->math == CUBLAS_TF32_TENSOR_OP_MATH,
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
  return emulation::blas_status(emulation::api_call("cublasSgemm", [&] {
    if (!emulation::lies_there(p)) return cudaErrorInvalidValue;
    const std::shared_ptr<emulation::Stream> stream = emulation::find_stream(handle->stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    emulation::enqueue(*stream, emulation::Access::own_device, [p]() -> std::string {
      emulation::multiply(p);
      return {};
    });
    return cudaSuccess;
  }));
}

}  // extern "C"

bool emulation::is_blas_handle(const void* handle) { return handles().contains(handle); }

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
