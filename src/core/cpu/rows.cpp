#include "core/cpu/rows.hpp"

#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/rows.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "core/noise.hpp"

// Plain loops that the compiler vectorises for each target. Sums run over kLanes partial sums, so
// that they vectorise without reassociation and have the same bits on every target.

HWY_BEFORE_NAMESPACE();
namespace heliograph::cpu {
namespace HWY_NAMESPACE {

constexpr int kLanes = 16;
constexpr std::int64_t kGroup = 32;  // columns that share noise words

template <class T, class Value>
T lane_sum(std::int64_t n, Value value) {
  T lanes[kLanes] = {};
  std::int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    for (int i = 0; i < kLanes; ++i) lanes[i] += value(c + i);
  }
  for (int i = 0; c + i < n; ++i) lanes[i] += value(c + i);
  T sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += lanes[i];
  return sum;
}

void keep_factors(std::uint64_t key, std::int64_t group, std::uint32_t threshold, float scale,
                  float* factor) {
  const auto first = static_cast<std::uint32_t>(group) * 16U;
  for (std::uint32_t i = 0; i < 16; ++i) {
    const std::uint32_t word = noise_word(key, first + i);
    factor[i] = (word & 0xffffU) >= threshold ? scale : 0.0F;
    factor[i + 16] = (word >> 16) >= threshold ? scale : 0.0F;
  }
}

/// to[c] = from[c] * keep factor of column c.
void drop_row(const Dropout& dropout, std::int64_t row, const float* from, float* to,
              std::int64_t cols) {
  const std::uint64_t key =
      row_key(dropout.stream, static_cast<std::uint64_t>(dropout.global_ids[row]));
  const float scale = dropout.scale();
  float factor[kGroup];
  for (std::int64_t c = 0; c < cols; c += kGroup) {
    keep_factors(key, c / kGroup, dropout.threshold, scale, factor);
    const std::int64_t n = cols - c < kGroup ? cols - c : kGroup;
    if (n == kGroup) {
      for (std::int64_t i = 0; i < kGroup; ++i) to[c + i] = from[c + i] * factor[i];
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[c + i] = from[c + i] * factor[i];
    }
  }
}

template <class T>
void norm_act_forward(ConstMatrixView y, const NormAct& p, ConstMatrixView residual, MatrixView out,
                      std::int64_t begin, std::int64_t end) {
  const std::int64_t n = y.cols;
  for (std::int64_t r = begin; r < end; ++r) {
    const float* HWY_RESTRICT in = y.row(r);
    float* HWY_RESTRICT o = out.row(r);
    for (std::int64_t c = 0; c < n; ++c) o[c] = in[c] + p.bias[c];
    if (p.gain != nullptr) {
      const T mean =
          lane_sum<T>(n, [&](std::int64_t c) { return static_cast<T>(o[c]); }) / static_cast<T>(n);
      const T var = lane_sum<T>(n,
                                [&](std::int64_t c) {
                                  const T d = static_cast<T>(o[c]) - mean;
                                  return d * d;
                                }) /
                    static_cast<T>(n);
      const auto m = static_cast<float>(mean);
      const auto s = static_cast<float>(T(1) / std::sqrt(var + T(1e-5)));
      p.mean[r] = m;
      p.rstd[r] = s;
      for (std::int64_t c = 0; c < n; ++c) o[c] = (o[c] - m) * s * p.gain[c] + p.shift[c];
    }
    // Written so that NaN passes through instead of becoming 0.
    for (std::int64_t c = 0; c < n; ++c) o[c] = o[c] < 0.0F ? 0.0F : o[c];
    if (residual.data != nullptr) {
      const float* HWY_RESTRICT x = residual.row(r);
      for (std::int64_t c = 0; c < n; ++c) o[c] += x[c];
    }
    if (p.dropout.active()) drop_row(p.dropout, r, o, o, n);
  }
}

void NormActForward(ConstMatrixView y, const NormAct& p, ConstMatrixView residual, MatrixView out,
                    bool fp64, std::int64_t begin, std::int64_t end) {
  if (fp64) {
    norm_act_forward<double>(y, p, residual, out, begin, end);
  } else {
    norm_act_forward<float>(y, p, residual, out, begin, end);
  }
}

template <class T>
void norm_act_backward(ConstMatrixView y, const NormAct& p, MatrixView d, MatrixView residual,
                       T* HWY_RESTRICT sums, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = y.cols;
  T* HWY_RESTRICT bias_sum = sums;
  T* HWY_RESTRICT gain_sum = sums + n;
  T* HWY_RESTRICT shift_sum = sums + 2 * n;
  for (std::int64_t c = 0; c < 3 * n; ++c) sums[c] = 0;
  for (std::int64_t r = begin; r < end; ++r) {
    const float* HWY_RESTRICT in = y.row(r);
    float* HWY_RESTRICT g = d.row(r);
    if (p.dropout.active()) drop_row(p.dropout, r, g, g, n);
    if (residual.data != nullptr)
      std::memcpy(residual.row(r), g, static_cast<std::size_t>(n) * sizeof(float));
    if (p.gain == nullptr) {
      for (std::int64_t c = 0; c < n; ++c) {
        g[c] = in[c] + p.bias[c] > 0.0F ? g[c] : 0.0F;
        bias_sum[c] += g[c];
      }
      continue;
    }
    const float m = p.mean[r];
    const float s = p.rstd[r];
    for (std::int64_t c = 0; c < n; ++c) {
      const float x = (in[c] + p.bias[c] - m) * s;
      const float dz = x * p.gain[c] + p.shift[c] > 0.0F ? g[c] : 0.0F;
      gain_sum[c] += static_cast<T>(dz) * x;
      shift_sum[c] += dz;
      g[c] = dz * p.gain[c];
    }
    const T mean_g =
        lane_sum<T>(n, [&](std::int64_t c) { return static_cast<T>(g[c]); }) / static_cast<T>(n);
    const T mean_gx = lane_sum<T>(n,
                                  [&](std::int64_t c) {
                                    return static_cast<T>(g[c]) * ((in[c] + p.bias[c] - m) * s);
                                  }) /
                      static_cast<T>(n);
    const auto a = static_cast<float>(mean_g);
    const auto b = static_cast<float>(mean_gx);
    for (std::int64_t c = 0; c < n; ++c) {
      const float x = (in[c] + p.bias[c] - m) * s;
      g[c] = s * (g[c] - a - x * b);
      bias_sum[c] += g[c];
    }
  }
}

void NormActBackward(ConstMatrixView y, const NormAct& p, MatrixView d, MatrixView residual,
                     void* sums, bool fp64, std::int64_t begin, std::int64_t end) {
  if (fp64) {
    norm_act_backward(y, p, d, residual, static_cast<double*>(sums), begin, end);
  } else {
    norm_act_backward(y, p, d, residual, static_cast<float*>(sums), begin, end);
  }
}

template <class T>
void column_sums(ConstMatrixView d, T* HWY_RESTRICT sums, std::int64_t begin, std::int64_t end) {
  for (std::int64_t c = 0; c < d.cols; ++c) sums[c] = 0;
  for (std::int64_t r = begin; r < end; ++r) {
    const float* HWY_RESTRICT g = d.row(r);
    for (std::int64_t c = 0; c < d.cols; ++c) sums[c] += g[c];
  }
}

void ColumnSums(ConstMatrixView d, void* sums, bool fp64, std::int64_t begin, std::int64_t end) {
  if (fp64) {
    column_sums(d, static_cast<double*>(sums), begin, end);
  } else {
    column_sums(d, static_cast<float*>(sums), begin, end);
  }
}

void DropoutRows(ConstMatrixView x, const Dropout& dropout, MatrixView out, std::int64_t begin,
                 std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) drop_row(dropout, r, x.row(r), out.row(r), x.cols);
}

void AddBias(MatrixView y, const float* bias, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    float* HWY_RESTRICT o = y.row(r);
    for (std::int64_t c = 0; c < y.cols; ++c) o[c] += bias[c];
  }
}

void AddRows(MatrixView a, ConstMatrixView b, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    float* HWY_RESTRICT o = a.row(r);
    const float* HWY_RESTRICT x = b.row(r);
    for (std::int64_t c = 0; c < a.cols; ++c) o[c] += x[c];
  }
}

constexpr std::int64_t kBlock = 64;  // columns summed in registers at a time

/// Calls store(c, count, sums) for each block of columns of sum over entries of value * row.
template <class T, class Entries, class Store>
void sparse_sum(std::int64_t cols, Entries entries, Store store) {
  for (std::int64_t c = 0; c < cols; c += kBlock) {
    T sums[kBlock] = {};
    const std::int64_t n = cols - c < kBlock ? cols - c : kBlock;
    if (n == kBlock) {
      entries([&](float value, const float* HWY_RESTRICT row) {
        for (std::int64_t i = 0; i < kBlock; ++i) sums[i] += static_cast<T>(value) * row[c + i];
      });
    } else {
      entries([&](float value, const float* HWY_RESTRICT row) {
        for (std::int64_t i = 0; i < n; ++i) sums[i] += static_cast<T>(value) * row[c + i];
      });
    }
    store(c, n, sums);
  }
}

template <class T>
void spmm(const SparseView& x, ConstMatrixView b, bool accumulate, MatrixView out,
          std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    float* HWY_RESTRICT o = out.row(r);
    sparse_sum<T>(
        out.cols,
        [&](auto add) {
          for (std::int64_t i = x.offsets[r]; i < x.offsets[r + 1]; ++i) {
            add(x.values[i], b.row(x.columns[i]));
          }
        },
        [&](std::int64_t c, std::int64_t n, const T* sums) {
          for (std::int64_t i = 0; i < n; ++i) {
            o[c + i] =
                static_cast<float>(accumulate ? static_cast<T>(o[c + i]) + sums[i] : sums[i]);
          }
        });
  }
}

void Spmm(const SparseView& x, ConstMatrixView b, bool accumulate, MatrixView out, bool fp64,
          std::int64_t begin, std::int64_t end) {
  if (fp64) {
    spmm<double>(x, b, accumulate, out, begin, end);
  } else {
    spmm<float>(x, b, accumulate, out, begin, end);
  }
}

template <class T>
void spmm_gradient(const SparseColumnsView& x, const float* values, ConstMatrixView d, T* g,
                   std::int64_t begin, std::int64_t end) {
  for (std::int64_t f = begin; f < end; ++f) {
    T* HWY_RESTRICT o = g + f * d.cols;
    sparse_sum<T>(
        d.cols,
        [&](auto add) {
          for (std::int64_t i = x.offsets[f]; i < x.offsets[f + 1]; ++i) {
            add(values[x.position[i]], d.row(x.row_of[i]));
          }
        },
        [&](std::int64_t c, std::int64_t n, const T* sums) {
          for (std::int64_t i = 0; i < n; ++i) o[c + i] = sums[i];
        });
  }
}

void SpmmGradient(const SparseColumnsView& x, const float* values, ConstMatrixView d,
                  GradientView g, std::int64_t begin, std::int64_t end) {
  if (g.f64 != nullptr) {
    spmm_gradient(x, values, d, g.f64, begin, end);
  } else {
    spmm_gradient(x, values, d, g.f32, begin, end);
  }
}

void Adam(float* HWY_RESTRICT value, const float* HWY_RESTRICT gradient, float* HWY_RESTRICT m,
          float* HWY_RESTRICT v, const AdamStep& step, std::int64_t count) {
  const AdamStep s = step;
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] * s.gradient_scale + s.weight_decay * value[i];
    m[i] = s.beta1 * m[i] + (1.0F - s.beta1) * g;
    v[i] = s.beta2 * v[i] + (1.0F - s.beta2) * g * g;
    value[i] -=
        s.lr * (m[i] / s.bias_correction1) / (std::sqrt(v[i] / s.bias_correction2) + s.epsilon);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heliograph::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heliograph::cpu {

HWY_EXPORT(NormActForward);
HWY_EXPORT(NormActBackward);
HWY_EXPORT(ColumnSums);
HWY_EXPORT(DropoutRows);
HWY_EXPORT(AddBias);
HWY_EXPORT(AddRows);
HWY_EXPORT(Spmm);
HWY_EXPORT(SpmmGradient);
HWY_EXPORT(Adam);

void norm_act_forward_rows(ConstMatrixView y, const NormAct& p, ConstMatrixView residual,
                           MatrixView out, bool fp64, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(NormActForward)(y, p, residual, out, fp64, begin, end);
}

void norm_act_backward_rows(ConstMatrixView y, const NormAct& p, MatrixView d,
                            MatrixView residual_gradient, void* partial, bool fp64,
                            std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(NormActBackward)(y, p, d, residual_gradient, partial, fp64, begin, end);
}

void column_sums_rows(ConstMatrixView d, void* partial, bool fp64, std::int64_t begin,
                      std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(ColumnSums)(d, partial, fp64, begin, end);
}

void dropout_rows(ConstMatrixView x, const Dropout& dropout, MatrixView out, std::int64_t begin,
                  std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(DropoutRows)(x, dropout, out, begin, end);
}

void add_bias_rows(MatrixView y, const float* bias, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(AddBias)(y, bias, begin, end);
}

void add_rows(MatrixView a, ConstMatrixView b, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(AddRows)(a, b, begin, end);
}

void spmm_rows(const SparseView& x, ConstMatrixView b, bool accumulate, MatrixView c, bool fp64,
               std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(Spmm)(x, b, accumulate, c, fp64, begin, end);
}

void spmm_gradient_columns(const SparseColumnsView& x, const float* values, ConstMatrixView d,
                           GradientView g, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(SpmmGradient)(x, values, d, g, begin, end);
}

void adam_range(float* value, const float* gradient, float* m, float* v, const AdamStep& step,
                std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(Adam)(value, gradient, m, v, step, count);
}

}  // namespace heliograph::cpu
#endif
