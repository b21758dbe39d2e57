#include <memory>

#include "core/buffer.hpp"
#include "core/cuda/aggregate.hpp"
#include "core/cuda/attention.hpp"
#include "core/cuda/cuda_device.hpp"
#include "core/cuda/gemm.hpp"
#include "core/cuda/kernel_calls.hpp"
#include "core/cuda/sums.hpp"
#include "core/kernels.hpp"
#include "core/throw_error.hpp"
#include "heliograph/error.hpp"

namespace heliograph {
namespace {

/// The fp32 gradient. Throws Error(usage) for an fp64 one, which these kernels do not compute.
float* f32(const GradientView& g) {
  if (g.f64 == nullptr) return g.f32;
  throw_error(ErrorCode::usage, "--device cuda: its kernels keep no gradients in fp64");
}
void refuse_fp64(const AccumulatorView& acc) {
  if (acc.data == nullptr) return;
  throw_error(ErrorCode::usage, "--device cuda: its kernels do not accumulate in fp64");
}

const AttentionTotals<float>& f32(const AttentionSums& sums) {
  refuse_fp64(sums.f64.rows);
  return sums.f32;
}

class CudaKernels final : public Kernels {
 public:
  CudaKernels(int device, int threads, const CudaOptions& options)
      : device_(device, threads, options.ranks),
        account_(device_.memory()),
        gemm_(queue_, options.tf32, &account_) {}

  Device& device() override { return device_; }
  bool reproducible() const override { return false; }

  void set_exact(bool exact) override { gemm_.set_exact(exact); }
  void gemm(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate,
            MatrixView c) override {
    gemm_.multiply(a, b, transpose_b, accumulate, c);
  }
  bool adds_bias_in_products() const override { return true; }
  void gemm_bias(ConstMatrixView a, ConstMatrixView b, bool accumulate, const float* bias,
                 MatrixView c) override {
    if (gemm_.multiply_with_bias(a, b, accumulate, bias, c)) return;
    gemm(a, b, false, accumulate, c);
    add_bias(c, bias);
  }
  void gemm_gradient(ConstMatrixView a, ConstMatrixView d, GradientView g) override {
    gemm_.gradient(a, d, f32(g));
  }
  void spmm(const SparseView& x, ConstMatrixView b, bool accumulate, MatrixView c) override {
    cuda::spmm(queue_, x, b, accumulate, c);
  }
  void spmm_gradient(const SparseColumnsView& x, const float* values, ConstMatrixView d,
                     GradientView g) override {
    cuda::spmm_gradient(queue_, x, values, d, f32(g));
  }

  GatherBlocks gather_blocks(const CsrView& /*csr*/, std::int64_t /*sources*/, MemoryUse /*use*/,
                             MemoryAccount* /*account*/) override {
    return {};
  }
  void aggregate_inner(const CsrView& csr, ConstMatrixView x, const float* col_scale, float self,
                       const float* row_scale, MatrixView out, AccumulatorView acc) override {
    refuse_fp64(acc);
    cuda::aggregate_inner(queue_, csr, x, col_scale, self, row_scale, out);
  }
  void aggregate_inner_bf16(const CsrView& csr, ConstMatrixView x, const float* col_scale,
                            float self, const float* row_scale, MatrixView out,
                            Bf16View stored) override {
    cuda::aggregate_inner_bf16(queue_, csr, x, col_scale, self, row_scale, out, stored);
  }
  void aggregate_halo(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                      MatrixView out, AccumulatorView acc) override {
    refuse_fp64(acc);
    cuda::aggregate_halo(queue_, csr, packed, row_scale, out);
  }

  void norm_act_forward(ConstMatrixView y, const NormAct& p, ConstMatrixView residual,
                        MatrixView out) override {
    cuda::norm_act_forward(queue_, y, p, residual, out);
  }
  void norm_act_backward(ConstMatrixView y, const NormAct& p, MatrixView d,
                         MatrixView residual_gradient, const NormActGradients& g) override {
    f32(g.bias);
    f32(g.gain);
    f32(g.shift);
    cuda::norm_act_backward(queue_, y, p, d, residual_gradient, g,
                            scratch<float>(cuda::norm_act_partials(y.rows, y.cols, p)));
  }
  void column_sums(ConstMatrixView d, GradientView g) override {
    cuda::column_sums(queue_, d, scratch<float>(cuda::sum_parts(d.rows) * d.cols), f32(g));
  }
  void axpby(float alpha, ConstMatrixView x, float beta, MatrixView y) override {
    cuda::axpby(queue_, alpha, nullptr, x, beta, y);
  }
  void add_scaled(const float* factor, ConstMatrixView x, MatrixView y) override {
    cuda::axpby(queue_, 1, factor, x, 1, y);
  }
  void dot(ConstMatrixView a, ConstMatrixView b, GradientView g) override {
    cuda::dot(queue_, a, b, scratch<float>(cuda::sum_parts(a.rows)), f32(g));
  }
  void gate_forward(ConstMatrixView x, const float* s, float* score, bool accumulate,
                    MatrixView out) override {
    cuda::gate_forward(queue_, x, s, score, accumulate, out);
  }
  void gate_backward(ConstMatrixView x, const float* s, const float* score, ConstMatrixView d,
                     MatrixView dx, bool accumulate, GradientView g) override {
    cuda::gate_backward(queue_, x, s, score, d, dx, accumulate,
                        scratch<float>((cuda::sum_parts(x.rows) + 1) * x.cols), f32(g));
  }
  void attention_scores(ConstMatrixView x, const float* source, const float* target, MatrixView s,
                        MatrixView t) override {
    cuda::attention_scores(queue_, x, source, target, s, t);
  }
  void attention_inner(const CsrView& csr, const Attention& attention, ConstMatrixView x,
                       ConstMatrixView exact, const AttentionSums& sums) override {
    cuda::attention_inner(queue_, csr, attention, x, exact, f32(sums));
  }
  void attention_halo(const CsrView& csr, const Attention& attention, const PackedRows& packed,
                      const AttentionSums& sums) override {
    cuda::attention_halo(queue_, csr, attention, packed, f32(sums));
  }
  void attention_output(const AttentionSums& sums, int heads, MatrixView out, MatrixView positive,
                        MatrixView share, MatrixView log_total) override {
    cuda::attention_output(queue_, f32(sums), heads, out, positive, share, log_total);
  }
  void attention_target_gradient(ConstMatrixView d, float factor, float slope, ConstMatrixView out,
                                 ConstMatrixView positive, ConstMatrixView share, MatrixView r,
                                 MatrixView dt) override {
    cuda::attention_target_gradient(queue_, d, factor, slope, out, positive, share, r, dt);
  }
  void attention_rounding(const KeptRows& kept, RowRange rows, ConstMatrixView x, int heads,
                          float factor, float slope, const AttentionSums& sums) override {
    cuda::attention_rounding(queue_, kept, rows, x, heads, factor, slope, f32(sums));
  }
  void decode_rows(const PackedRows& packed, const std::int32_t* nodes, MatrixView values,
                   MatrixView exact) override {
    cuda::decode_rows(queue_, packed, nodes, values, exact);
  }
  void attention_source_gradient(ConstMatrixView x, const float* source, const float* target,
                                 float factor, float slope, const AttentionSums& sums,
                                 ConstMatrixView dt, MatrixView dx, bool accumulate,
                                 GradientView g_source, GradientView g_target) override {
    cuda::attention_source_gradient(
        queue_, x, source, target, factor, slope, f32(sums), dt, dx, accumulate,
        scratch<float>(cuda::sum_parts(x.rows) * 2 * x.cols), f32(g_source), f32(g_target));
  }
  void dynamic_attention(const DynamicAttention& attention, MatrixView out,
                         MatrixView log_total) override {
    cuda::dynamic_attention(queue_, attention, out, log_total);
  }
  void dynamic_attention_targets(const DynamicAttention& attention, MatrixView d_targets,
                                 GradientView g_vector) override {
    cuda::dynamic_attention_targets(
        queue_, attention, d_targets,
        scratch<float>(cuda::sum_parts(d_targets.rows) * attention.cols), f32(g_vector));
  }
  void dynamic_attention_sources(const DynamicAttention& attention, MatrixView d_sources) override {
    cuda::dynamic_attention_sources(queue_, attention, d_sources);
  }
  void max_forward(ConstMatrixView x, MatrixView out) override {
    cuda::max_forward(queue_, x, out);
  }
  void max_backward(ConstMatrixView x, ConstMatrixView out, MatrixView d, MatrixView dx) override {
    cuda::max_backward(queue_, x, out, d, dx);
  }
  void column_moments(ConstMatrixView y, const float* center, std::span<double> sums) override {
    const auto width = static_cast<std::int64_t>(sums.size());
    double* const on_device = scratch<double>((cuda::moment_parts(y.rows) + 1) * width);
    cuda::column_moments(queue_, y, center, on_device + width, on_device);
    moments_.resize(sums.size());
    queue_.download(moments_.data(), on_device, sums.size_bytes());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += moments_[i];
  }
  void batch_norm_backward(ConstMatrixView y, const NormAct& p, const float* gain_mean,
                           const float* shift_mean, MatrixView d) override {
    cuda::batch_norm_backward(queue_, y, p, gain_mean, shift_mean, d);
  }
  void dropout(ConstMatrixView x, const Dropout& dropout, MatrixView out) override {
    cuda::dropout(queue_, x, dropout, out);
  }
  void dropout_values(const SparseView& x, const Dropout& dropout, float* out) override {
    cuda::dropout_values(queue_, x, dropout, out);
  }

  double softmax_cross_entropy(ConstMatrixView logits, const ClassTargets& targets, float scale,
                               MatrixView d) override {
    double* sum = scratch<double>(cuda::loss_partials(logits.rows) + 1);
    cuda::softmax_cross_entropy(queue_, logits, targets, scale, d, sum + 1, sum);
    return value(sum);
  }
  double binary_cross_entropy(ConstMatrixView logits, const std::uint8_t* indicators,
                              const std::uint8_t* mask, float scale, MatrixView d) override {
    double* sum = scratch<double>(cuda::loss_partials(logits.rows) + 1);
    cuda::binary_cross_entropy(queue_, logits, indicators, mask, scale, d, sum + 1, sum);
    return value(sum);
  }

  double squared_error(ConstMatrixView values, const float* target, float scale,
                       MatrixView d) override {
    double* sum = scratch<double>(cuda::loss_partials(values.rows) + 1);
    cuda::squared_error(queue_, values, target, scale, d, sum + 1, sum);
    return value(sum);
  }

  void sum_in_rank_order(float* mine, const float* others, std::int64_t count, std::int64_t stride,
                         int rank, int ranks) override {
    cuda::sum_in_rank_order(queue_, mine, others, count, stride, rank, ranks);
  }
  void sum_of_squares(const GradientView& g, double* sum) override {
    cuda::sum_of_squares(queue_, f32(g), g.rows * g.cols, scratch<double>(cuda::kSquareParts), sum);
  }
  void adam(float* value, const GradientView& gradient, float* m, float* v,
            const AdamStep& step) override {
    cuda::adam(queue_, value, f32(gradient), m, v, step, gradient.rows * gradient.cols);
  }

 private:
  /// Device memory for `count` values, valid until the next call. Grows and is kept.
  template <class T>
  T* scratch(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (scratch_.size() < bytes) {
      scratch_ = Buffer();  // released first, so that both never exist at once
      scratch_ = Buffer(bytes, MemoryUse::workspace, &account_);
    }
    return reinterpret_cast<T*>(scratch_.data());
  }
  double value(const double* on_device) {
    double copy = 0;
    queue_.download(&copy, on_device, sizeof(copy));
    return copy;
  }

  cuda::CudaDevice device_;
  cuda::Queue& queue_ = *device_.queue();
  MemoryAccount account_;
  cuda::Gemm gemm_;
  Buffer scratch_;
  std::vector<double> moments_;  ///< The host's copy of column_moments.
};

}  // namespace

bool cuda_built() noexcept { return true; }

std::unique_ptr<Kernels> make_cuda_kernels(int device, int threads, const CudaOptions& options) {
  const int devices = require_cuda_devices("--device cuda");
  return std::make_unique<CudaKernels>(device % devices, threads, options);
}

}  // namespace heliograph
