#include "core/cuda/gemm.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "core/cuda/bias_products.hpp"
#include "core/cuda/blas_functions.hpp"
#include "heliograph/error.hpp"

namespace heliograph::cuda {
namespace {

/// What cuBLAS recommends for sm_90; less suffices elsewhere.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

int size(std::int64_t n) {
  if (n > std::numeric_limits<int>::max()) {
    throw Error(ErrorCode::resource, "CUDA device: a matrix product has a side of " +
                                         std::to_string(n) + ", more than 32 bits can hold");
  }
  return static_cast<int>(n);
}

/// Of a matrix without columns, too, cuBLAS wants a stride.
template <class T>
int stride(BasicMatrixView<T> m) {
  return std::max(1, size(m.stride));
}

}  // namespace

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorCode::resource,
              std::string("CUDA device: ") + what + ": " + blas_functions().status_string(status));
}

struct Gemm::Handle {
  Handle() { check(functions.create(&blas), "starting cuBLAS"); }
  ~Handle() {
    if (!devices_abandoned()) functions.destroy(blas);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const BlasFunctions& functions = blas_functions();
  cublasHandle_t blas = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;  ///< As it was set last.
};

Gemm::Gemm(Queue& queue, bool tf32, MemoryAccount* account)
    : queue_(queue),
      tf32_(tf32),
      workspace_(kWorkspaceBytes, MemoryRoom::workspace, account),
      handle_(std::make_unique<Handle>()) {
  const BlasFunctions& f = handle_->functions;
  cublasHandle_t blas = handle_->blas;
  check(f.set_stream(blas, queue.stream()), "setting up cuBLAS");
  // cuBLAS's own scratch is not the same for every call; with it, bits could differ.
  check(f.set_workspace(blas, workspace_.data(), workspace_.size()), "setting up cuBLAS");
  check(f.set_atomics_mode(blas, CUBLAS_ATOMICS_NOT_ALLOWED), "setting up cuBLAS");
  ready();
  with_bias_ = std::make_unique<BiasProducts>(queue, blas, workspace_.data(), workspace_.size());
}

Gemm::~Gemm() = default;

Gemm::Handle& Gemm::ready() {
  const cublasMath_t math = rounds() ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_PEDANTIC_MATH;
  if (handle_->math != math) {
    check(handle_->functions.set_math_mode(handle_->blas, math), "setting up cuBLAS");
    handle_->math = math;
  }
  return *handle_;
}

// cuBLAS has columns where views have rows: it is asked for the transposed product, of which the
// factors change places.

void Gemm::multiply(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate,
                    MatrixView c) {
  if (c.rows == 0 || c.cols == 0) return;
  const float one = 1;
  const float before = accumulate ? 1 : 0;
  Handle& h = ready();
  check(h.functions.sgemm(h.blas, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N,
                          size(c.cols), size(c.rows), size(a.cols), &one, b.data, stride(b), a.data,
                          stride(a), &before, c.data, stride(c)),
        "matrix product");
}

bool Gemm::multiply_with_bias(ConstMatrixView a, ConstMatrixView b, bool accumulate,
                              const float* bias, MatrixView c) {
  return with_bias_->multiply(a, b, accumulate, bias, rounds(), c);
}

void Gemm::gradient(ConstMatrixView a, ConstMatrixView d, float* g) {
  if (a.cols == 0 || d.cols == 0) return;
  if (a.rows == 0) {
    queue_.clear(g, static_cast<std::size_t>(a.cols * d.cols) * sizeof(float));
    return;
  }
  const float one = 1;
  const float nothing = 0;
  Handle& h = ready();
  check(
      h.functions.sgemm(h.blas, CUBLAS_OP_N, CUBLAS_OP_T, size(d.cols), size(a.cols), size(a.rows),
                        &one, d.data, stride(d), a.data, stride(a), &nothing, g, size(d.cols)),
      "gradient of a matrix product");
}

}  // namespace heliograph::cuda
