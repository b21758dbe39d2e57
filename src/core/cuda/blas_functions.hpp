#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>

namespace heliograph::cuda {

/// The functions of cuBLAS, and of cublasLt (lt_), that are used.
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

/// Loads cuBLAS when it is first called, for the rest of the process: merely being linked to it
/// would cost every run on CPUs its memory (over 100 MB). Throws Error(resource) where there is
/// none.
const BlasFunctions& blas_functions();

/// Throws Error(resource): "CUDA device: WHAT: why".
void check(cublasStatus_t status, const char* what);

}  // namespace heliograph::cuda
