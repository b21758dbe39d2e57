#include <cmath>
#include <cstring>

#include "core/cpu/rows.hpp"
#include "core/cpu/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/rows_simd.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// after foreach_target
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "core/noise.hpp"

// Plain loops that the compiler vectorises for each target. A sum over a row is kept in kLanes
// partial sums, so that it vectorises without reassociation and has the same bits on every target.

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

/// to[c] = from[c] * keep factor of column c. Inlined, so that the compiler sees that `from` and
/// `to` are the same row or disjoint; otherwise it would not vectorise the loop.
HWY_INLINE void drop_row(const Dropout& dropout, std::int64_t row, const float* from, float* to,
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
  const float* HWY_RESTRICT bias = p.bias;
  const float* HWY_RESTRICT gain = p.gain;
  const float* HWY_RESTRICT shift = p.shift;
  for (std::int64_t r = begin; r < end; ++r) {
    const float* HWY_RESTRICT in = y.row(r);
    float* HWY_RESTRICT o = out.row(r);
    for (std::int64_t c = 0; c < n; ++c) o[c] = in[c] + bias[c];
    if (gain != nullptr) {
      const T mean =
          lane_sum<T>(n, [&](std::int64_t c) { return static_cast<T>(o[c]); }) / static_cast<T>(n);
      const T var = lane_sum<T>(n,
                                [&](std::int64_t c) {
                                  const T d = static_cast<T>(o[c]) - mean;
                                  return d * d;
                                }) /
                    static_cast<T>(n);
      const auto m = static_cast<float>(mean);
      // An overflowing variance would scale the row to 0 unnoticed; NaN is reported.
      const T inverse = T(1) / std::sqrt(var + T(1e-5));
      const auto s = static_cast<float>(std::isfinite(var) ? inverse : var - var);
      p.mean[r] = m;
      p.rstd[r] = s;
      for (std::int64_t c = 0; c < n; ++c) o[c] = (o[c] - m) * s * gain[c] + shift[c];
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

// The row loops are separate functions because only `restrict` on parameters lets the compiler
// vectorise loops over this many arrays.

template <class T>
HWY_NOINLINE void relu_backward_row(std::int64_t n, const float* HWY_RESTRICT in,
                                    const float* HWY_RESTRICT bias, float* HWY_RESTRICT g,
                                    T* HWY_RESTRICT bias_sum) {
  for (std::int64_t c = 0; c < n; ++c) {
    const float upstream = g[c];
    const float masked = in[c] + bias[c] > 0.0F ? upstream : 0.0F;
    g[c] = masked;
    bias_sum[c] += masked;
  }
}

template <class T>
HWY_NOINLINE void norm_backward_row(std::int64_t n, const float* HWY_RESTRICT in,
                                    const float* HWY_RESTRICT bias, const float* HWY_RESTRICT gain,
                                    const float* HWY_RESTRICT shift, float mean, float rstd,
                                    float* HWY_RESTRICT g, float* HWY_RESTRICT normalised,
                                    T* HWY_RESTRICT bias_sum, T* HWY_RESTRICT gain_sum,
                                    T* HWY_RESTRICT shift_sum) {
  for (std::int64_t c = 0; c < n; ++c) {
    const float x = (in[c] + bias[c] - mean) * rstd;
    const float upstream = g[c];
    const float dz = x * gain[c] + shift[c] > 0.0F ? upstream : 0.0F;
    normalised[c] = x;
    gain_sum[c] += static_cast<T>(dz) * static_cast<T>(x);
    shift_sum[c] += static_cast<T>(dz);
    g[c] = dz * gain[c];
  }
  T g_lanes[kLanes] = {};
  T gx_lanes[kLanes] = {};
  std::int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    for (int i = 0; i < kLanes; ++i) {
      g_lanes[i] += static_cast<T>(g[c + i]);
      gx_lanes[i] += static_cast<T>(g[c + i]) * static_cast<T>(normalised[c + i]);
    }
  }
  for (int i = 0; c + i < n; ++i) {
    g_lanes[i] += static_cast<T>(g[c + i]);
    gx_lanes[i] += static_cast<T>(g[c + i]) * static_cast<T>(normalised[c + i]);
  }
  T g_sum = 0;
  T gx_sum = 0;
  for (int i = 0; i < kLanes; ++i) {
    g_sum += g_lanes[i];
    gx_sum += gx_lanes[i];
  }
  const auto a = static_cast<float>(g_sum / static_cast<T>(n));
  const auto b = static_cast<float>(gx_sum / static_cast<T>(n));
  for (c = 0; c < n; ++c) {
    const float dy = rstd * (g[c] - a - normalised[c] * b);
    g[c] = dy;
    bias_sum[c] += static_cast<T>(dy);
  }
}

/// `sums` has room for 4 * y.cols values; the last y.cols are scratch.
template <class T>
void norm_act_backward(ConstMatrixView y, const NormAct& p, MatrixView d, MatrixView residual,
                       T* sums, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = y.cols;
  auto* normalised = reinterpret_cast<float*>(sums + 3 * n);
  for (std::int64_t c = 0; c < 3 * n; ++c) sums[c] = 0;
  for (std::int64_t r = begin; r < end; ++r) {
    float* g = d.row(r);
    if (p.dropout.active()) drop_row(p.dropout, r, g, g, n);
    if (residual.data != nullptr) {
      std::memcpy(residual.row(r), g, static_cast<std::size_t>(n) * sizeof(float));
    }
    if (p.gain == nullptr) {
      relu_backward_row(n, y.row(r), p.bias, g, sums);
    } else {
      norm_backward_row(n, y.row(r), p.bias, p.gain, p.shift, p.mean[r], p.rstd[r], g, normalised,
                        sums, sums + n, sums + 2 * n);
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

namespace hn = hwy::HWY_NAMESPACE;

/// out = sum over entries i in [begin, end) of value(i) * row(i), or out += to accumulate; rows
/// have `cols` columns. Blocks of columns stay in registers over all entries.
template <class Value, class Row>
void sparse_sum(std::int64_t begin, std::int64_t end, std::int64_t cols, Value value, Row row,
                bool accumulate, float* HWY_RESTRICT out) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t kAhead = 4;  // entries between the prefetch of a row and its use
  const auto put = [&](V s, float* to) HWY_ATTR {
    hn::StoreU(accumulate ? hn::Add(s, hn::LoadU(d, to)) : s, d, to);
  };
  std::int64_t c = 0;
  for (; c + 8 * lanes <= cols; c += 8 * lanes) {
    V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (std::int64_t i = begin; i < end; ++i) {
      if (i + kAhead < end) {
        const float* next = row(i + kAhead) + c;
        for (std::int64_t line = 0; line < 8 * lanes; line += 16) hwy::Prefetch(next + line);
      }
      const V v = hn::Set(d, value(i));
      const float* HWY_RESTRICT r = row(i) + c;
      s0 = hn::MulAdd(v, hn::LoadU(d, r), s0);
      s1 = hn::MulAdd(v, hn::LoadU(d, r + lanes), s1);
      s2 = hn::MulAdd(v, hn::LoadU(d, r + 2 * lanes), s2);
      s3 = hn::MulAdd(v, hn::LoadU(d, r + 3 * lanes), s3);
      s4 = hn::MulAdd(v, hn::LoadU(d, r + 4 * lanes), s4);
      s5 = hn::MulAdd(v, hn::LoadU(d, r + 5 * lanes), s5);
      s6 = hn::MulAdd(v, hn::LoadU(d, r + 6 * lanes), s6);
      s7 = hn::MulAdd(v, hn::LoadU(d, r + 7 * lanes), s7);
    }
    // Written out because vectors of a size unknown to the compiler cannot be array elements.
    put(s0, out + c);
    put(s1, out + c + lanes);
    put(s2, out + c + 2 * lanes);
    put(s3, out + c + 3 * lanes);
    put(s4, out + c + 4 * lanes);
    put(s5, out + c + 5 * lanes);
    put(s6, out + c + 6 * lanes);
    put(s7, out + c + 7 * lanes);
  }
  for (; c + lanes <= cols; c += lanes) {
    V s = hn::Zero(d);
    for (std::int64_t i = begin; i < end; ++i) {
      s = hn::MulAdd(hn::Set(d, value(i)), hn::LoadU(d, row(i) + c), s);
    }
    put(s, out + c);
  }
  for (; c < cols; ++c) {
    float s = 0;
    for (std::int64_t i = begin; i < end; ++i) s += value(i) * row(i)[c];
    out[c] = accumulate ? s + out[c] : s;
  }
}

/// sparse_sum with fp64 sums, for `--reproducible`; T is the type of `out`.
template <class T, class Value, class Row>
void sparse_sum_fp64(std::int64_t begin, std::int64_t end, std::int64_t cols, Value value, Row row,
                     bool accumulate, T* HWY_RESTRICT out) {
  constexpr std::int64_t kBlock = 64;
  for (std::int64_t c = 0; c < cols; c += kBlock) {
    double sums[kBlock] = {};
    const std::int64_t n = cols - c < kBlock ? cols - c : kBlock;
    for (std::int64_t i = begin; i < end; ++i) {
      const double v = value(i);
      const float* HWY_RESTRICT r = row(i) + c;
      for (std::int64_t j = 0; j < n; ++j) sums[j] += v * r[j];
    }
    for (std::int64_t j = 0; j < n; ++j) {
      out[c + j] = static_cast<T>(accumulate ? static_cast<double>(out[c + j]) + sums[j] : sums[j]);
    }
  }
}

void Spmm(const SparseView& x, ConstMatrixView b, bool accumulate, MatrixView out, bool fp64,
          std::int64_t begin, std::int64_t end) {
  const auto value = [&](std::int64_t i) { return x.values[i]; };
  const auto row = [&](std::int64_t i) { return b.row(x.columns[i]); };
  for (std::int64_t r = begin; r < end; ++r) {
    if (fp64) {
      sparse_sum_fp64(x.offsets[r], x.offsets[r + 1], out.cols, value, row, accumulate, out.row(r));
    } else {
      sparse_sum(x.offsets[r], x.offsets[r + 1], out.cols, value, row, accumulate, out.row(r));
    }
  }
}

void SpmmGradient(const SparseColumnsView& x, const float* values, ConstMatrixView d,
                  GradientView g, std::int64_t begin, std::int64_t end) {
  const auto value = [&](std::int64_t i) { return values[x.position[i]]; };
  const auto row = [&](std::int64_t i) { return d.row(x.row_of[i]); };
  for (std::int64_t f = begin; f < end; ++f) {
    if (g.f64 != nullptr) {
      sparse_sum_fp64(x.offsets[f], x.offsets[f + 1], d.cols, value, row, false,
                      g.f64 + f * d.cols);
    } else {
      sparse_sum(x.offsets[f], x.offsets[f + 1], d.cols, value, row, false, g.f32 + f * d.cols);
    }
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
        s.decoupled_decay * value[i] +
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
