#include "device/gradient_product.hpp"

#include <cstddef>
#include <cstdint>

#include "core/cuda/blas_functions.hpp"

namespace heliograph::bench {

struct GradientProduct::State {
  explicit State(MemoryAccount& account)
      : workspace(std::size_t{32} << 20, MemoryUse::workspace, &account) {
    cuda::check(f.create(&blas), "starting cuBLAS");
  }
  ~State() { f.destroy(blas); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const cuda::BlasFunctions& f = cuda::blas_functions();
  Buffer workspace;
  cublasHandle_t blas = nullptr;
};

GradientProduct::GradientProduct(cuda::Queue& queue, bool pedantic, MemoryAccount& account)
    : state_(std::make_unique<State>(account)) {
  const cuda::BlasFunctions& f = state_->f;
  cublasHandle_t blas = state_->blas;
  const char* what = "setting up cuBLAS";
  cuda::check(f.set_stream(blas, queue.stream()), what);
  cuda::check(f.set_workspace(blas, state_->workspace.data(), state_->workspace.size()), what);
  cuda::check(f.set_atomics_mode(blas, CUBLAS_ATOMICS_NOT_ALLOWED), what);
  cuda::check(f.set_math_mode(blas, pedantic ? CUBLAS_PEDANTIC_MATH : CUBLAS_DEFAULT_MATH), what);
}

GradientProduct::~GradientProduct() = default;

void GradientProduct::run(ConstMatrixView a, ConstMatrixView d, float* g) {
  const auto size = [](std::int64_t n) { return static_cast<int>(n); };
  const float one = 1, nothing = 0;
  cuda::check(state_->f.sgemm(state_->blas, CUBLAS_OP_N, CUBLAS_OP_T, size(d.cols), size(a.cols),
                              size(a.rows), &one, d.data, size(d.stride), a.data, size(a.stride),
                              &nothing, g, size(d.cols)),
              "gradient of a matrix product");
}

}  // namespace heliograph::bench
