#include "core/cuda/gemm.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "core/cuda/bias_products.hpp"
#include "core/cuda/blas_functions.hpp"
#include "core/cuda/captures.hpp"
#include "core/throw_error.hpp"

namespace heliograph::cuda {
namespace {

/// Workspace that cuBLAS recommends for sm_90; other devices need less.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

constexpr const char* kProduct = "matrix product";
constexpr const char* kGradient = "gradient of a matrix product";

int size(std::int64_t n) {
  if (n > std::numeric_limits<int>::max()) {
    throw_error(ErrorCode::resource,
                "CUDA device: a matrix product has a side of {}, more than 32 bits can hold", n);
  }
  return static_cast<int>(n);
}

/// Stride for cuBLAS, which must be at least 1 even for a matrix without columns.
template <class T>
int stride(BasicMatrixView<T> m) {
  return std::max(1, size(m.stride));
}

}  // namespace

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw_error(ErrorCode::resource, "CUDA device: {}: {}", what,
              blas_functions().status_string(status));
}

struct Gemm::Handle {
  explicit Handle(int number) : device(number) {
    const auto held = hold_off_captures(device);
    check(functions.create(&blas), "starting cuBLAS");
  }
  ~Handle() {
    if (devices_abandoned()) return;
    const auto held = hold_off_captures(device);  // destroying a handle waits for the device
    functions.destroy(blas);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  void set_math(cublasMath_t wanted) {
    if (math == wanted) return;
    check(functions.set_math_mode(blas, wanted), "setting up cuBLAS");
    math = wanted;
  }

  const int device;
  const BlasFunctions& functions = blas_functions();
  cublasHandle_t blas = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;  ///< The mode that was set last.
};

Gemm::Gemm(Queue& queue, bool tf32, MemoryAccount* account)
    : queue_(queue),
      tf32_(tf32),
      workspace_(kWorkspaceBytes, MemoryUse::workspace, account),
      handle_(std::make_unique<Handle>(queue.device())) {
  const BlasFunctions& f = handle_->functions;
  cublasHandle_t blas = handle_->blas;
  check(f.set_stream(blas, queue.stream()), "setting up cuBLAS");
  // cuBLAS's own workspace may vary between calls, and the bits of a product with it.
  check(f.set_workspace(blas, workspace_.data(), workspace_.size()), "setting up cuBLAS");
  check(f.set_atomics_mode(blas, CUBLAS_ATOMICS_NOT_ALLOWED), "setting up cuBLAS");
  handle_->set_math(CUBLAS_PEDANTIC_MATH);
  with_bias_ = std::make_unique<BiasProducts>(queue, blas, workspace_.data(), workspace_.size());
}

Gemm::~Gemm() = default;

/// Arguments of a cuBLAS product: c = op(a) op(b), or c += op(a) op(b), column-major.
struct Gemm::Product {
  int transpose_a, transpose_b;
  int m, n, k;
  int lda, ldb, ldc;
  const float* a;
  const float* b;
  float* c;
  int accumulate;
  int math;  ///< The cublasMath_t to compute it with.
};

void Gemm::ask(const char* name, Product product) {
  static_assert(std::has_unique_object_representations_v<Product>);
  product.math = rounds() ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_PEDANTIC_MATH;
  queue_.ask(LibraryWork{name, this, &Gemm::ask_now, std::as_bytes(std::span(&product, 1))});
}

void Gemm::ask_now(void* gemm, const void* product, cudaStream_t /*stream*/) {
  Handle& handle = *static_cast<Gemm*>(gemm)->handle_;
  Product p;
  std::memcpy(&p, product, sizeof(p));
  handle.set_math(static_cast<cublasMath_t>(p.math));
  const float one = 1;
  const float before = p.accumulate != 0 ? 1 : 0;
  const auto operation = [](int transpose) { return transpose != 0 ? CUBLAS_OP_T : CUBLAS_OP_N; };
  check(handle.functions.sgemm(handle.blas, operation(p.transpose_a), operation(p.transpose_b), p.m,
                               p.n, p.k, &one, p.a, p.lda, p.b, p.ldb, &before, p.c, p.ldc),
        p.transpose_b != 0 ? kGradient : kProduct);
}

// cuBLAS is column-major, so it computes the transposed product, with the factors swapped.

void Gemm::multiply(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate,
                    MatrixView c) {
  if (c.rows == 0 || c.cols == 0) return;
  ask(kProduct, {transpose_b ? 1 : 0, 0, size(c.cols), size(c.rows), size(a.cols), stride(b),
                 stride(a), stride(c), b.data, a.data, c.data, accumulate ? 1 : 0, 0});
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
  ask(kGradient, {0, 1, size(d.cols), size(a.cols), size(a.rows), stride(d), stride(a),
                  size(d.cols), d.data, a.data, g, 0, 0});
}

}  // namespace heliograph::cuda
