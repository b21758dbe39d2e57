#include <dlfcn.h>

#include <string>

#include "core/cuda/blas_functions.hpp"
#include "core/throw_error.hpp"

namespace heliograph::cuda {
namespace {

/// Opens cuBLAS of the major version that this build used: on the loader's path, else where it was
/// at build time.
void* open_library() {
  const std::string name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
  if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const std::string why = dlerror();
  if (void* library = dlopen(HELIOGRAPH_CUBLAS, RTLD_NOW | RTLD_LOCAL)) return library;
  throw_error(ErrorCode::resource, "--device cuda: cuBLAS cannot be loaded: {}", why);
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    throw_error(ErrorCode::resource, "--device cuda: this cuBLAS lacks {}", name);
  }
}

BlasFunctions load() {
  void* library = open_library();
  BlasFunctions f{};
  find(library, "cublasGetStatusString", f.status_string);
  find(library, "cublasCreate_v2", f.create);
  find(library, "cublasDestroy_v2", f.destroy);
  find(library, "cublasSetStream_v2", f.set_stream);
  find(library, "cublasSetWorkspace_v2", f.set_workspace);
  find(library, "cublasSetMathMode", f.set_math_mode);
  find(library, "cublasSetAtomicsMode", f.set_atomics_mode);
  find(library, "cublasSgemm_v2", f.sgemm);
  // dlsym also searches cublasLt, since cuBLAS depends on it.
  find(library, "cublasLtMatmulDescCreate", f.lt_operation_create);
  find(library, "cublasLtMatmulDescDestroy", f.lt_operation_destroy);
  find(library, "cublasLtMatmulDescSetAttribute", f.lt_operation_set);
  find(library, "cublasLtMatrixLayoutCreate", f.lt_layout_create);
  find(library, "cublasLtMatrixLayoutDestroy", f.lt_layout_destroy);
  find(library, "cublasLtMatmulPreferenceCreate", f.lt_preference_create);
  find(library, "cublasLtMatmulPreferenceDestroy", f.lt_preference_destroy);
  find(library, "cublasLtMatmulPreferenceSetAttribute", f.lt_preference_set);
  find(library, "cublasLtMatmulAlgoGetHeuristic", f.lt_heuristic);
  find(library, "cublasLtMatmul", f.lt_matmul);
  return f;
}

}  // namespace

const BlasFunctions& blas_functions() {
  static const BlasFunctions functions = load();
  return functions;
}

}  // namespace heliograph::cuda
