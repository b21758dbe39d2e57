#include "device/cusparse_spmm.hpp"

#include <cusparse.h>
#include <dlfcn.h>

#include <string>

#include "core/cuda/runtime.hpp"
#include "heliograph/error.hpp"

namespace heliograph::bench {
namespace {

struct Functions {
  decltype(&cusparseGetErrorString) error_string;
  decltype(&cusparseCreate) create;
  decltype(&cusparseDestroy) destroy;
  decltype(&cusparseSetStream) set_stream;
  decltype(&cusparseCreateCsr) create_csr;
  decltype(&cusparseCreateDnMat) create_dense;
  decltype(&cusparseDestroySpMat) destroy_sparse;
  decltype(&cusparseDestroyDnMat) destroy_dense;
  decltype(&cusparseSpMM_bufferSize) buffer_size;
  decltype(&cusparseSpMM) spmm;
};

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) {
    throw Error(ErrorCode::resource, std::string("this cuSPARSE lacks ") + name);
  }
}

Functions load() {
  const std::string name = "libcusparse.so." + std::to_string(CUSPARSE_VER_MAJOR);
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = dlopen(HELIOGRAPH_CUSPARSE, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(ErrorCode::resource, std::string("cuSPARSE cannot be loaded: ") + dlerror());
  }
  Functions f{};
  find(library, "cusparseGetErrorString", f.error_string);
  find(library, "cusparseCreate", f.create);
  find(library, "cusparseDestroy", f.destroy);
  find(library, "cusparseSetStream", f.set_stream);
  find(library, "cusparseCreateCsr", f.create_csr);
  find(library, "cusparseCreateDnMat", f.create_dense);
  find(library, "cusparseDestroySpMat", f.destroy_sparse);
  find(library, "cusparseDestroyDnMat", f.destroy_dense);
  find(library, "cusparseSpMM_bufferSize", f.buffer_size);
  find(library, "cusparseSpMM", f.spmm);
  return f;
}

}  // namespace

struct CusparseSpmm::State {
  State() = default;
  ~State() {
    if (buffer != nullptr) cudaFree(buffer);
    for (cusparseDnMatDescr_t dense : {x, out}) {
      if (dense != nullptr) f.destroy_dense(dense);
    }
    if (a != nullptr) f.destroy_sparse(a);
    if (handle != nullptr) f.destroy(handle);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void check(cusparseStatus_t status) const {
    if (status == CUSPARSE_STATUS_SUCCESS) return;
    throw Error(ErrorCode::resource, std::string("cuSPARSE: ") + f.error_string(status));
  }

  Functions f = load();
  cusparseHandle_t handle = nullptr;
  cusparseSpMatDescr_t a = nullptr;
  cusparseDnMatDescr_t x = nullptr;
  cusparseDnMatDescr_t out = nullptr;
  void* buffer = nullptr;
  float one = 1;
  float nothing = 0;
};

CusparseSpmm::CusparseSpmm(const Arguments& arguments, cudaStream_t stream)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  const Arguments& in = arguments;
  // cuSPARSE takes its inputs by pointers that are not const.
  const auto pointer = [](const auto* p) { return const_cast<void*>(static_cast<const void*>(p)); };
  s.check(s.f.create(&s.handle));
  s.check(s.f.set_stream(s.handle, stream));
  s.check(s.f.create_csr(&s.a, in.outputs, in.rows, in.edges, pointer(in.offsets),
                         pointer(in.columns), pointer(in.values), CUSPARSE_INDEX_32I,
                         CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
  s.check(s.f.create_dense(&s.x, in.rows, in.width, in.x_stride, pointer(in.x), CUDA_R_32F,
                           CUSPARSE_ORDER_ROW));
  s.check(s.f.create_dense(&s.out, in.outputs, in.width, in.out_stride, in.out, CUDA_R_32F,
                           CUSPARSE_ORDER_ROW));
  std::size_t bytes = 0;
  s.check(s.f.buffer_size(s.handle, CUSPARSE_OPERATION_NON_TRANSPOSE,
                          CUSPARSE_OPERATION_NON_TRANSPOSE, &s.one, s.a, s.x, &s.nothing, s.out,
                          CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG2, &bytes));
  if (bytes > 0) cuda::check(cudaMalloc(&s.buffer, bytes), "memory for cuSPARSE");
}

CusparseSpmm::~CusparseSpmm() = default;

void CusparseSpmm::run() {
  State& s = *state_;
  s.check(s.f.spmm(s.handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE,
                   &s.one, s.a, s.x, &s.nothing, s.out, CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG2,
                   s.buffer));
}

}  // namespace heliograph::bench
