#include <algorithm>
#include <vector>

#include "core/buffer.hpp"
#include "core/cpu/aggregate.hpp"
#include "core/cpu/aggregate_tiles.hpp"
#include "core/cpu/attention.hpp"
#include "core/cpu/decode_rows.hpp"
#include "core/cpu/dynamic_attention.hpp"
#include "core/cpu/gemm.hpp"
#include "core/cpu/loss.hpp"
#include "core/cpu/rows.hpp"
#include "core/kernels.hpp"
#include "core/noise.hpp"
#include "core/sum_in_rank_order.hpp"

namespace heliograph {
namespace {

/// Kernels on a CPU: threads work on tiles of rows, and partial sums are added in tile order.
class CpuKernels final : public Kernels {
 public:
  CpuKernels(int threads, bool reproducible, MemoryAccount* account)
      : device_(threads),
        reproducible_(reproducible),
        account_(account),
        gemm_(threads_, account),
        attention_space_(account) {}

  Device& device() override { return device_; }
  bool reproducible() const override { return reproducible_; }

  void gemm(ConstMatrixView a, ConstMatrixView b, bool transpose_b, bool accumulate,
            MatrixView c) override {
    gemm_.multiply(a, b, transpose_b, accumulate, c, reproducible_);
  }
  void gemm_bias(ConstMatrixView a, ConstMatrixView b, bool accumulate, const float* bias,
                 MatrixView c) override {
    gemm(a, b, false, accumulate, c);
    add_bias(c, bias);
  }
  void gemm_gradient(ConstMatrixView a, ConstMatrixView d, GradientView g) override {
    gemm_.gradient(a, d, g);
  }
  void spmm(const SparseView& x, ConstMatrixView b, bool accumulate, MatrixView c) override {
    by_rows(c.rows, cpu::spmm_rows, x, b, accumulate, c, reproducible_);
  }
  void spmm_gradient(const SparseColumnsView& x, const float* values, ConstMatrixView d,
                     GradientView g) override {
    threads_.for_ranges(x.cols, 32, [&](std::int64_t begin, std::int64_t end) {
      cpu::spmm_gradient_columns(x, values, d, g, begin, end);
    });
  }

  GatherBlocks gather_blocks(const CsrView& csr, std::int64_t sources, MemoryUse use,
                             MemoryAccount* account) override {
    if (reproducible_) return {};
    return GatherBlocks(csr, sources, threads_, use, account);
  }
  void aggregate_inner(const CsrView& csr, ConstMatrixView x, const float* col_scale, float self,
                       const float* row_scale, MatrixView out, AccumulatorView acc) override {
    cpu::aggregate_inner(csr, x, col_scale, self, row_scale, out, acc, threads_);
  }
  void aggregate_inner_bf16(const CsrView& csr, ConstMatrixView x, const float* col_scale,
                            float self, const float* row_scale, MatrixView out,
                            Bf16View stored) override {
    cpu::aggregate_inner_bf16(csr, x, col_scale, self, row_scale, out, stored, threads_);
  }
  void aggregate_halo(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                      MatrixView out, AccumulatorView acc) override {
    cpu::aggregate_halo(csr, packed, row_scale, out, acc, threads_);
  }

  void norm_act_forward(ConstMatrixView y, const NormAct& p, ConstMatrixView residual,
                        MatrixView out) override {
    by_rows(y.rows, cpu::norm_act_forward_rows, y, p, residual, out, reproducible_);
  }
  void norm_act_backward(ConstMatrixView y, const NormAct& p, MatrixView d,
                         MatrixView residual_gradient, const NormActGradients& g) override {
    const auto each = [&](auto visit) {
      if (p.bias != nullptr) visit(0, y.cols, g.bias);
      if (p.gain == nullptr) return;
      visit(y.cols, y.cols, g.gain);
      visit(2 * y.cols, y.cols, g.shift);
    };
    tiled_sums(
        y.rows, 3 * y.cols, y.cols,
        [&](void* partial, std::int64_t begin, std::int64_t end) {
          cpu::norm_act_backward_rows(y, p, d, residual_gradient, partial, reproducible_, begin,
                                      end);
        },
        [&] {
          if (g.accumulate) each([&](auto... sums) { begin_sums(sums...); });
        });
    each([&](auto... sums) { store_sums(sums...); });
  }
  void column_moments(ConstMatrixView y, const float* center, std::span<double> sums) override {
    const auto width = static_cast<std::size_t>(2 * y.cols);
    const std::int64_t tiles = (y.rows + kRowTile - 1) / kRowTile;
    fit_partials(static_cast<std::size_t>(tiles) * width * sizeof(double));
    double* partials = partials_.as<double>().data();
    threads_.run(tiles, [&](std::int64_t t) {
      cpu::column_moments_rows(y, center, partials + static_cast<std::size_t>(t) * width,
                               t * kRowTile, std::min(y.rows, (t + 1) * kRowTile));
    });
    threads_.for_ranges(static_cast<std::int64_t>(width), 64,
                        [&](std::int64_t begin, std::int64_t end) {
                          for (std::int64_t t = 0; t < tiles; ++t) {
                            const double* tile = partials + static_cast<std::size_t>(t) * width;
                            for (std::int64_t i = begin; i < end; ++i) {
                              sums[static_cast<std::size_t>(i)] += tile[i];
                            }
                          }
                        });
  }
  void batch_norm_backward(ConstMatrixView y, const NormAct& p, const float* gain_mean,
                           const float* shift_mean, MatrixView d) override {
    by_rows(y.rows, cpu::batch_norm_backward_rows, y, p, gain_mean, shift_mean, d);
  }
  void column_sums(ConstMatrixView d, GradientView g) override {
    tiled_sums(d.rows, d.cols, 0, [&](void* partial, std::int64_t begin, std::int64_t end) {
      cpu::column_sums_rows(d, partial, reproducible_, begin, end);
    });
    store_sums(0, d.cols, g);
  }
  void axpby(float alpha, ConstMatrixView x, float beta, MatrixView y) override {
    by_rows(y.rows, cpu::axpby_rows, alpha, x, beta, y);
  }
  void add_scaled(const float* factor, ConstMatrixView x, MatrixView y) override {
    axpby(*factor, x, 1.0F, y);
  }
  void dot(ConstMatrixView a, ConstMatrixView b, GradientView g) override {
    const double sum = tiled_total(a.rows, [&](std::int64_t begin, std::int64_t end) {
      return cpu::dot_rows(a, b, reproducible_, begin, end);
    });
    if (g.f64 != nullptr) {
      *g.f64 = sum;
    } else {
      *g.f32 = static_cast<float>(sum);
    }
  }
  void gate_forward(ConstMatrixView x, const float* s, float* score, bool accumulate,
                    MatrixView out) override {
    by_rows(x.rows, cpu::gate_forward_rows, x, s, score, accumulate, out, reproducible_);
  }
  void gate_backward(ConstMatrixView x, const float* s, const float* score, ConstMatrixView d,
                     MatrixView dx, bool accumulate, GradientView g) override {
    tiled_sums(x.rows, x.cols, 0, [&](void* partial, std::int64_t begin, std::int64_t end) {
      cpu::gate_backward_rows(x, s, score, d, dx, partial, reproducible_, begin, end);
    });
    store_sums(0, x.cols, g, accumulate);
  }
  void attention_scores(ConstMatrixView x, const float* source, const float* target, MatrixView s,
                        MatrixView t) override {
    by_rows(x.rows, cpu::attention_scores_rows, x, source, target, s, t, reproducible_);
  }
  void attention_inner(const CsrView& csr, const Attention& attention, ConstMatrixView x,
                       ConstMatrixView exact, const AttentionSums& sums) override {
    cpu::attention_inner(csr, attention, x, exact, sums, attention_space_, threads_);
  }
  void attention_halo(const CsrView& csr, const Attention& attention, const PackedRows& packed,
                      const AttentionSums& sums) override {
    cpu::attention_halo(csr, attention, packed, sums, attention_space_, threads_);
  }
  void attention_output(const AttentionSums& sums, int heads, MatrixView out, MatrixView positive,
                        MatrixView share, MatrixView log_total) override {
    by_rows(out.rows, cpu::attention_output_rows, sums, heads, out, positive, share, log_total);
  }
  void attention_target_gradient(ConstMatrixView d, float factor, float slope, ConstMatrixView out,
                                 ConstMatrixView positive, ConstMatrixView share, MatrixView r,
                                 MatrixView dt) override {
    by_rows(d.rows, cpu::attention_target_gradient_rows, d, factor, slope, out, positive, share, r,
            dt, reproducible_);
  }
  void attention_rounding(const KeptRows& kept, RowRange rows, ConstMatrixView x, int heads,
                          float factor, float slope, const AttentionSums& sums) override {
    cpu::attention_rounding(kept, rows, x, heads, factor, slope, sums, attention_space_, threads_);
  }
  void decode_rows(const PackedRows& packed, const std::int32_t* nodes, MatrixView values,
                   MatrixView exact) override {
    if (values.data != nullptr) cpu::decode_rows(packed, nodes, values, threads_);
    for (std::int64_t r = 0; exact.data != nullptr && r < packed.rows; ++r) {
      const std::int64_t node = nodes == nullptr ? r : nodes[r];
      for (std::int64_t c = 0; node >= 0 && c < exact.cols; ++c) {
        exact.row(node)[c] = packed.exact(r, c);
      }
    }
  }
  void attention_source_gradient(ConstMatrixView x, const float* source, const float* target,
                                 float factor, float slope, const AttentionSums& sums,
                                 ConstMatrixView dt, MatrixView dx, bool accumulate,
                                 GradientView g_source, GradientView g_target) override {
    tiled_sums(
        x.rows, 2 * x.cols, 0,
        [&](void* partial, std::int64_t begin, std::int64_t end) {
          cpu::attention_source_gradient_rows(x, source, target, factor, slope, sums, dt, dx,
                                              partial, begin, end);
        },
        [&] {
          if (!accumulate) return;
          begin_sums(0, x.cols, g_source);
          begin_sums(x.cols, x.cols, g_target);
        });
    store_sums(0, x.cols, g_source);
    store_sums(x.cols, x.cols, g_target);
  }
  void dynamic_attention(const DynamicAttention& attention, MatrixView out,
                         MatrixView log_total) override {
    by_entries(attention, cpu::dynamic_attention_values(attention), cpu::dynamic_attention_rows,
               out, log_total);
  }
  void dynamic_attention_targets(const DynamicAttention& attention, MatrixView d_targets,
                                 GradientView g_vector) override {
    tiled_sums(d_targets.rows, attention.cols, attention.cols,
               [&](void* partial, std::int64_t begin, std::int64_t end) {
                 cpu::dynamic_attention_target_rows(attention, d_targets, partial, reproducible_,
                                                    begin, end);
               });
    store_sums(0, attention.cols, g_vector);
  }
  void dynamic_attention_sources(const DynamicAttention& attention, MatrixView d_sources) override {
    by_entries(attention, attention.cols, cpu::dynamic_attention_source_rows, d_sources);
  }
  void max_forward(ConstMatrixView x, MatrixView out) override {
    by_rows(x.rows, cpu::max_forward_rows, x, out);
  }
  void max_backward(ConstMatrixView x, ConstMatrixView out, MatrixView d, MatrixView dx) override {
    by_rows(x.rows, cpu::max_backward_rows, x, out, d, dx);
  }
  void dropout(ConstMatrixView x, const Dropout& dropout, MatrixView out) override {
    by_rows(x.rows, cpu::dropout_rows, x, dropout, out);
  }
  void dropout_values(const SparseView& x, const Dropout& dropout, float* out) override {
    const float scale = dropout.scale();
    threads_.for_ranges(x.rows, kRowTile, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::uint64_t key =
            row_key(dropout.stream, static_cast<std::uint64_t>(dropout.global_ids[r]));
        for (std::int64_t i = x.offsets[r]; i < x.offsets[r + 1]; ++i) {
          const bool kept =
              noise16(key, static_cast<std::uint32_t>(x.columns[i])) >= dropout.threshold;
          out[i] = kept ? x.values[i] * scale : 0.0F;
        }
      }
    });
  }

  double softmax_cross_entropy(ConstMatrixView logits, const ClassTargets& targets, float scale,
                               MatrixView d) override {
    return tiled_total(logits.rows, [&](std::int64_t begin, std::int64_t end) {
      return reproducible_
                 ? cpu::softmax_cross_entropy_rows_fp64(logits, targets, scale, d, begin, end)
                 : cpu::softmax_cross_entropy_rows(logits, targets, scale, d, begin, end);
    });
  }
  double binary_cross_entropy(ConstMatrixView logits, const std::uint8_t* indicators,
                              const std::uint8_t* mask, float scale, MatrixView d) override {
    return tiled_total(logits.rows, [&](std::int64_t begin, std::int64_t end) {
      return reproducible_
                 ? cpu::binary_cross_entropy_rows_fp64(logits, indicators, mask, scale, d, begin,
                                                       end)
                 : cpu::binary_cross_entropy_rows(logits, indicators, mask, scale, d, begin, end);
    });
  }

  double squared_error(ConstMatrixView values, const float* target, float scale,
                       MatrixView d) override {
    return tiled_total(values.rows, [&](std::int64_t begin, std::int64_t end) {
      return cpu::squared_error_rows(values, target, scale, d, begin, end);
    });
  }

  /// The twin of a device's kernel. On a host, AllReduce calls the same template for all types.
  void sum_in_rank_order(float* mine, const float* others, std::int64_t count, std::int64_t stride,
                         int rank, int ranks) override {
    heliograph::sum_in_rank_order(std::span(mine, static_cast<std::size_t>(count)), others,
                                  static_cast<std::size_t>(stride), rank, ranks);
  }
  void sum_of_squares(const GradientView& g, double* sum) override {
    *sum = 0;
    for (std::int64_t i = 0; i < g.rows * g.cols; ++i) {
      const double value = g.f64 != nullptr ? g.f64[i] : static_cast<double>(g.f32[i]);
      *sum += value * value;
    }
  }
  void adam(float* value, const GradientView& gradient, float* m, float* v,
            const AdamStep& step) override {
    const std::int64_t count = gradient.rows * gradient.cols;
    threads_.for_ranges(count, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
      if (gradient.f64 == nullptr) {
        cpu::adam_range(value + begin, gradient.f32 + begin, m + begin, v + begin, step,
                        end - begin);
        return;
      }
      float rounded[256];
      for (std::int64_t i = begin; i < end; i += 256) {
        const std::int64_t n = std::min<std::int64_t>(256, end - i);
        for (std::int64_t j = 0; j < n; ++j) rounded[j] = static_cast<float>(gradient.f64[i + j]);
        cpu::adam_range(value + i, rounded, m + i, v + i, step, n);
      }
    });
  }

 private:
  /// Runs kernel(arguments..., begin, end) on each tile of rows.
  template <class Kernel, class... Arguments>
  void by_rows(std::int64_t rows, Kernel kernel, const Arguments&... arguments) {
    threads_.for_ranges(rows, kRowTile, [&](std::int64_t begin, std::int64_t end) {
      kernel(arguments..., begin, end);
    });
  }

  /// Runs kernel(attention, arguments..., memory, fp64, begin, end) on tiles of about equally many
  /// entries of the larger block, with room for `values` sums.
  template <class Kernel, class... Arguments>
  void by_entries(const DynamicAttention& attention, std::int64_t values, Kernel kernel,
                  const Arguments&... arguments) {
    attention_space_.fit(static_cast<std::size_t>(values) * sum_bytes(), threads_.threads());
    const CsrView &inner = attention.inner.csr, &halo = attention.halo.csr;
    const bool mostly_halo = halo.rows > 0 && halo.offsets[halo.rows] - halo.offsets[0] >
                                                  inner.offsets[inner.rows] - inner.offsets[0];
    cpu::for_tiles(mostly_halo ? halo : inner, attention.cols, threads_,
                   [&](std::int64_t begin, std::int64_t end) {
                     cpu::AttentionSpace::Place place(attention_space_);
                     kernel(attention, arguments..., place.memory(), reproducible_, begin, end);
                   });
  }

  std::size_t sum_bytes() const { return reproducible_ ? sizeof(double) : sizeof(float); }

  void fit_partials(std::size_t bytes) {
    if (partials_.size() < bytes) partials_ = Buffer(bytes, MemoryUse::workspace, account_);
  }

  /// Runs body(partial, begin, end) on each tile of rows and adds the tiles' sums, in tile order,
  /// at the start of partials_. `partial` has room for `width` sums and `scratch` further values.
  /// Calls `before` before it adds them.
  template <class Body, class Before>
  void tiled_sums(std::int64_t rows, std::int64_t width, std::int64_t scratch, Body body,
                  Before before) {
    const std::int64_t tiles = std::max<std::int64_t>(1, (rows + kRowTile - 1) / kRowTile);
    const std::int64_t stride = width + scratch;
    const std::size_t tile_bytes = static_cast<std::size_t>(stride) * sum_bytes();
    fit_partials(static_cast<std::size_t>(tiles) * tile_bytes);
    threads_.run(tiles, [&](std::int64_t t) {
      body(partials_.data() + static_cast<std::size_t>(t) * tile_bytes, t * kRowTile,
           std::min(rows, (t + 1) * kRowTile));
    });
    before();
    if (reproducible_) {
      add_tiles<double>(tiles, width, stride);
    } else {
      add_tiles<float>(tiles, width, stride);
    }
  }

  template <class Body>
  void tiled_sums(std::int64_t rows, std::int64_t width, std::int64_t scratch, Body body) {
    tiled_sums(rows, width, scratch, body, [] {});
  }

  template <class T>
  void add_tiles(std::int64_t tiles, std::int64_t width, std::int64_t stride) {
    T* sums = partials_.as<T>().data();
    for (std::int64_t t = 1; t < tiles; ++t) {
      for (std::int64_t c = 0; c < width; ++c) sums[c] += sums[t * stride + c];
    }
  }

  /// Adds the first tile's sums to those that `g` holds, as if its tiles had come before.
  void begin_sums(std::int64_t first, std::int64_t count, GradientView g) {
    const auto add = [&](const auto* from) {
      using T = std::remove_const_t<std::remove_pointer_t<decltype(from)>>;
      T* to = partials_.as<T>().data() + first;
      for (std::int64_t c = 0; c < count; ++c) to[c] = from[c] + to[c];
    };
    if (g.f64 != nullptr) {
      add(g.f64);
    } else {
      add(g.f32);
    }
  }

  void store_sums(std::int64_t first, std::int64_t count, GradientView g,
                  bool accumulate = false) const {
    const auto store = [&](auto* to) {
      using T = std::remove_pointer_t<decltype(to)>;
      const T* from = partials_.as<T>().data() + first;
      for (std::int64_t c = 0; c < count; ++c) to[c] = accumulate ? to[c] + from[c] : from[c];
    };
    if (g.f64 != nullptr) {
      store(g.f64);
    } else {
      store(g.f32);
    }
  }

  template <class Body>
  double tiled_total(std::int64_t rows, Body body) {
    const std::int64_t tiles = (rows + kRowTile - 1) / kRowTile;
    if (totals_.size() < static_cast<std::size_t>(tiles)) {
      totals_.resize(static_cast<std::size_t>(tiles));
    }
    threads_.run(tiles, [&](std::int64_t t) {
      totals_[static_cast<std::size_t>(t)] = body(t * kRowTile, std::min(rows, (t + 1) * kRowTile));
    });
    double sum = 0;
    for (std::int64_t t = 0; t < tiles; ++t) sum += totals_[static_cast<std::size_t>(t)];
    return sum;
  }

  Device device_;
  ThreadPool& threads_ = device_.threads();
  bool reproducible_;
  MemoryAccount* account_;
  cpu::Gemm gemm_;
  cpu::AttentionSpace attention_space_;
  Buffer partials_;
  std::vector<double> totals_;
};

}  // namespace

std::unique_ptr<Kernels> make_cpu_kernels(int threads, bool reproducible, MemoryAccount* account) {
  return std::make_unique<CpuKernels>(threads, reproducible, account);
}

}  // namespace heliograph
