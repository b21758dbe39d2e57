#include "core/cuda/bias_products.hpp"

#include <cstring>
#include <span>
#include <type_traits>

namespace heliograph::cuda {
namespace {

/// Alignment of a pointer in bytes: 64, 16 or 4. Coarse, so that the choice of an algorithm does
/// not depend on where memory happens to be allocated.
std::uint32_t alignment(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  for (const std::uint32_t bytes : {64U, 16U}) {
    if (address % bytes == 0) return bytes;
  }
  return sizeof(float);
}

/// Bytes of a bias that kernels of cublasLt may load at once; no preference limits them.
constexpr std::uint32_t kBiasAlignment = 16;

constexpr const char* kSetUp = "setting up a matrix product";

}  // namespace

/// Everything on which the choice of an algorithm may depend.
struct BiasProducts::Shape {
  std::int64_t rows, inner, cols;  ///< c is rows x cols; each sum has `inner` terms.
  std::int64_t stride_a, stride_b, stride_c;
  std::uint32_t alignment_a, alignment_b, alignment_c, alignment_bias;
  bool accumulate, tf32;

  bool operator==(const Shape&) const = default;
};

/// The algorithm and descriptors for products of one shape.
struct BiasProducts::Plan {
  /// Owns a descriptor of cublasLt, which its create function writes to `made()`.
  template <class Handle>
  class Described {
   public:
    using End = cublasStatus_t (*)(Handle);

    explicit Described(End end) : end_(end) {}
    ~Described() {
      if (handle_ != nullptr) end_(handle_);
    }
    Described(const Described&) = delete;
    Described& operator=(const Described&) = delete;

    Handle* made() { return &handle_; }
    Handle get() const { return handle_; }

   private:
    End end_;
    Handle handle_ = nullptr;
  };

  explicit Plan(const BlasFunctions& f, const Shape& s)
      : shape(s),
        operation(f.lt_operation_destroy),
        a(f.lt_layout_destroy),
        b(f.lt_layout_destroy),
        c(f.lt_layout_destroy) {}

  Shape shape;
  Described<cublasLtMatmulDesc_t> operation;
  Described<cublasLtMatrixLayout_t> a, b, c;
  cublasLtMatmulAlgo_t algorithm{};
  bool found = false;
};

struct BiasProducts::Product {
  const Plan* plan;
  const float* a;
  const float* b;
  const float* bias;
  float* c;
};

BiasProducts::BiasProducts(Queue& queue, cublasHandle_t blas, void* workspace,
                           std::size_t workspace_bytes)
    : queue_(queue),
      lt_(reinterpret_cast<cublasLtHandle_t>(blas)),  // a handle of cuBLAS is one of cublasLt, too
      workspace_(workspace),
      workspace_bytes_(workspace_bytes) {}

BiasProducts::~BiasProducts() = default;

// cublasLt is column-major, so it computes the transposed product, as in gemm.cpp. The bias, one
// value a column here, is then one value a row, as the epilogue expects.

const BiasProducts::Plan& BiasProducts::plan(const Shape& shape, const float* bias) {
  for (const auto& plan : plans_) {
    if (plan->shape == shape) return *plan;
  }
  const BlasFunctions& f = functions_;
  auto made = std::make_unique<Plan>(f, shape);
  Plan& plan = *made;
  const auto set = [](auto function, auto handle, auto attribute, const auto& value) {
    check(function(handle, attribute, &value, sizeof(value)), kSetUp);
  };
  check(f.lt_operation_create(
            plan.operation.made(),
            shape.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F),
        kSetUp);
  const auto operation = plan.operation.get();
  set(f.lt_operation_set, operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
      static_cast<std::uint32_t>(CUBLASLT_EPILOGUE_BIAS));
  set(f.lt_operation_set, operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const auto describe = [&](Plan::Described<cublasLtMatrixLayout_t>& layout, std::int64_t rows,
                            std::int64_t cols, std::int64_t stride) {
    check(f.lt_layout_create(layout.made(), CUDA_R_32F, static_cast<std::uint64_t>(cols),
                             static_cast<std::uint64_t>(rows), stride),
          kSetUp);
  };
  describe(plan.a, shape.rows, shape.inner, shape.stride_a);
  describe(plan.b, shape.inner, shape.cols, shape.stride_b);
  describe(plan.c, shape.rows, shape.cols, shape.stride_c);

  Plan::Described<cublasLtMatmulPreference_t> preference(f.lt_preference_destroy);
  check(f.lt_preference_create(preference.made()), kSetUp);
  const auto prefer = [&](auto attribute, const auto& value) {
    set(f.lt_preference_set, preference.get(), attribute, value);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes_));
  // Without split sums each sum is added up by one block, in a fixed order.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.alignment_b);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.alignment_a);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.alignment_c);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.alignment_c);
  cublasLtMatmulHeuristicResult_t best{};
  int count = 0;
  const cublasStatus_t status =
      f.lt_heuristic(lt_, operation, plan.b.get(), plan.a.get(), plan.c.get(), plan.c.get(),
                     preference.get(), 1, &best, &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "choosing a matrix product");
  plan.found = status == CUBLAS_STATUS_SUCCESS && count > 0 && best.state == CUBLAS_STATUS_SUCCESS;
  plan.algorithm = best.algo;
  plans_.push_back(std::move(made));
  return plan;
}

bool BiasProducts::multiply(ConstMatrixView a, ConstMatrixView b, bool accumulate,
                            const float* bias, bool tf32, MatrixView c) {
  if (c.rows == 0 || c.cols == 0) return true;
  if (a.cols == 0 || alignment(bias) < kBiasAlignment) return false;
  const Plan& p = plan({c.rows, a.cols, c.cols, a.stride, b.stride, c.stride, alignment(a.data),
                        alignment(b.data), alignment(c.data), alignment(bias), accumulate, tf32},
                       bias);
  if (!p.found) return false;
  const Product product{&p, a.data, b.data, bias, c.data};
  static_assert(std::has_unique_object_representations_v<Product>);
  queue_.ask(LibraryWork{"matrix product with bias", this, &BiasProducts::ask_now,
                         std::as_bytes(std::span(&product, 1))});
  return true;
}

void BiasProducts::ask_now(void* products, const void* product, cudaStream_t stream) {
  const auto& self = *static_cast<BiasProducts*>(products);
  const BlasFunctions& f = self.functions_;
  Product x;
  std::memcpy(&x, product, sizeof(x));
  const Plan& p = *x.plan;
  check(f.lt_operation_set(p.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &x.bias,
                           sizeof(x.bias)),
        kSetUp);
  const float one = 1;
  const float before = p.shape.accumulate ? 1 : 0;
  check(f.lt_matmul(self.lt_, p.operation.get(), &one, x.b, p.b.get(), x.a, p.a.get(), &before, x.c,
                    p.c.get(), x.c, p.c.get(), &p.algorithm, self.workspace_, self.workspace_bytes_,
                    stream),
        "matrix product with bias");
}

}  // namespace heliograph::cuda
