#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

namespace heliograph::cuda {

/// Pointers to functions of cuBLAS and of cublasLt (lt_).
struct BlasFunctions {
  decltype(&cublasGetStatusString) status_string;
  decltype(&cublasCreate) create;
  decltype(&cublasDestroy) destroy;
  decltype(&cublasSetStream) set_stream;
  decltype(&cublasSetWorkspace) set_workspace;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasSetAtomicsMode) set_atomics_mode;
  decltype(&cublasSgemm) sgemm;
  decltype(&cublasLtMatmulDescCreate) lt_operation_create;
  decltype(&cublasLtMatmulDescDestroy) lt_operation_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) lt_operation_set;
  decltype(&cublasLtMatrixLayoutCreate) lt_layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) lt_layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) lt_preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) lt_preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) lt_preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) lt_heuristic;
  decltype(&cublasLtMatmul) lt_matmul;
};

/// The functions of cuBLAS, which the first call loads for the rest of the process: linking to it
/// would cost every run on CPUs over 100 MB. Throws Error(resource) if it cannot be loaded.
const BlasFunctions& blas_functions();

/// Throws Error(resource) "CUDA device: WHAT: why" unless `status` is success.
void check(cublasStatus_t status, const char* what);

}  // namespace heliograph::cuda
