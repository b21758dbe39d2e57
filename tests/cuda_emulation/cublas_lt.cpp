#include <cublasLt.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>

#include "blas_product.hpp"
#include "runtime.hpp"

// What the real one leaves to be found out on a device is an error here: an algorithm for another
// shape or alignment, a workspace that is too small, a bias that was not given or is not aligned.

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;
};

struct cublasLtMatrixLayoutOpaque_t {
  std::uint64_t rows, cols;
  std::int64_t ld;
};

/// The defaults are cublasLt's.
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::map<int, std::uint32_t> alignment = {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 256},
                                            {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 256},
                                            {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 256},
                                            {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 256}};
};

namespace {
using namespace heliograph::cuda_emulation;

constexpr std::uint64_t kWorkspace = 4096;
/// Some of its kernels rely on this, and no preference states it.
constexpr std::uint32_t kBiasAlignment = 16;

/// What an algorithm is good for; it lies in cublasLtMatmulAlgo_t::data.
struct Algorithm {
  std::uint64_t shape;
  std::uint32_t alignment[4];  ///< Of a, b, c and d.
  std::uint32_t reductions;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

std::uint64_t shape_of(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                       cublasLtMatrixLayout_t d) {
  std::uint64_t hash = operation->epilogue * 1000 + static_cast<std::uint64_t>(operation->compute);
  for (const auto* m : {a, b, c, d}) {
    for (const std::uint64_t value : {m->rows, m->cols, static_cast<std::uint64_t>(m->ld)}) {
      hash = (hash ^ value) * 0x100000001b3U;
    }
  }
  return hash;
}

bool fit(cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
         cublasLtMatrixLayout_t d) {
  return a->rows == d->rows && a->cols == b->rows && b->cols == d->cols && c->rows == d->rows &&
         c->cols == d->cols;
}

std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(256, address & (~address + 1)));
}

/// Makes one of these descriptions, counted as a call.
template <class T>
cublasStatus_t create(const char* function, T** made, const T& value, bool valid) {
  return blas_call(function, [&] {
    if (!valid) return cudaErrorInvalidValue;
    *made = new T(value);
    return cudaSuccess;
  });
}

template <class T>
cudaError_t take(T& to, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof(T)) return cudaErrorInvalidValue;
  std::memcpy(&to, value, bytes);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  return create("cublasLtMatmulDescCreate", operation, {compute}, scale == CUDA_R_32F);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete operation;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  return blas_call("cublasLtMatmulDescSetAttribute", [&] {
    return attribute == CUBLASLT_MATMUL_DESC_EPILOGUE ? take(operation->epilogue, value, bytes)
                                                      : take(operation->bias, value, bytes);
  });
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  const bool valid =
      type == CUDA_R_32F && rows > 0 && cols > 0 && ld >= static_cast<std::int64_t>(rows);
  return create("cublasLtMatrixLayoutCreate", layout, {rows, cols, ld}, valid);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create("cublasLtMatmulPreferenceCreate", preference, {}, true);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  return blas_call("cublasLtMatmulPreferenceSetAttribute", [&] {
    switch (attribute) {
      case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return take(preference->workspace, value, bytes);
      case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return take(preference->reductions, value, bytes);
      default:
        return take(preference->alignment.at(attribute), value, bytes);
    }
  });
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  return blas_call("cublasLtMatmulAlgoGetHeuristic", [&] {
    if (!is_blas_handle(handle) || asked < 1 || !fit(a, b, c, d) || operation->bias == nullptr) {
      return cudaErrorInvalidValue;
    }
    *found = 0;
    if (preference->workspace < kWorkspace) return cudaErrorNotSupported;
    if (alignment_of(operation->bias) < kBiasAlignment) return cudaErrorInvalidValue;
    *found = 1;
    Algorithm algorithm{};
    algorithm.shape = shape_of(operation, a, b, c, d);
    for (int i = 0; i < 4; ++i) {
      algorithm.alignment[i] =
          preference->alignment.at(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i);
    }
    algorithm.reductions = preference->reductions;
    results[0] = {};
    results[0].workspaceSize = kWorkspace;
    results[0].state = CUBLAS_STATUS_SUCCESS;
    std::memcpy(results[0].algo.data, &algorithm, sizeof(algorithm));
    return cudaSuccess;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t bytes, cudaStream_t stream) {
  return blas_call("cublasLtMatmul", [&] {
    Algorithm algorithm;
    std::memcpy(&algorithm, algo->data, sizeof(algorithm));
    const void* const matrices[] = {a, b, c, d};
    for (int i = 0; i < 4; ++i) {
      if (alignment_of(matrices[i]) < algorithm.alignment[i]) return cudaErrorInvalidValue;
    }
    const bool has_bias = operation->epilogue == CUBLASLT_EPILOGUE_BIAS;
    // In place only, and then in the same layout.
    const bool in_place = c == d && c_layout == d_layout;
    if (!is_blas_handle(handle) || !in_place ||
        algorithm.shape != shape_of(operation, a_layout, b_layout, c_layout, d_layout) ||
        (has_bias &&
         (operation->bias == nullptr || alignment_of(operation->bias) < kBiasAlignment)) ||
        bytes < kWorkspace || alignment_of(workspace) < 256 || !on_device(workspace, bytes)) {
      return cudaErrorInvalidValue;
    }
    Product p{.tf32 = operation->compute == CUBLAS_COMPUTE_32F_FAST_TF32,
              .transpose_a = false,
              .transpose_b = false,
              .m = static_cast<std::int64_t>(d_layout->rows),
              .n = static_cast<std::int64_t>(d_layout->cols),
              .k = static_cast<std::int64_t>(a_layout->cols),
              .alpha = *static_cast<const float*>(alpha),
              .a = static_cast<const float*>(a),
              .lda = a_layout->ld,
              .b = static_cast<const float*>(b),
              .ldb = b_layout->ld,
              .beta = *static_cast<const float*>(beta),
              .c = static_cast<float*>(d),
              .ldc = d_layout->ld};
    if (has_bias) p.bias = operation->bias;
    // Where blocks may share a sum, its order is another one each time.
    static bool turn = false;
    turn = !turn;
    p.from_the_end = algorithm.reductions != CUBLASLT_REDUCTION_SCHEME_NONE && turn;
    return enqueue_product(p, stream);
  });
}

}  // extern "C"
