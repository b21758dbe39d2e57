#pragma once

#include <cublas_v2.h>

namespace heliograph::cuda {

/// The functions of cuBLAS that are used.
struct BlasFunctions {
  decltype(&cublasGetStatusString) status_string;
  decltype(&cublasCreate) create;
  decltype(&cublasDestroy) destroy;
  decltype(&cublasSetStream) set_stream;
  decltype(&cublasSetWorkspace) set_workspace;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasSetAtomicsMode) set_atomics_mode;
  decltype(&cublasSgemm) sgemm;
};

/// Loads cuBLAS when it is first called, for the rest of the process: merely being linked to it
/// would cost every run on CPUs its memory (over 100 MB). Throws Error(resource) where there is
/// none.
const BlasFunctions& blas_functions();

}  // namespace heliograph::cuda
