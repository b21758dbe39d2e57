#include <cmath>

#include "core/cpu/rows.hpp"
#include "core/cpu/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/rows_simd.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// after foreach_target
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "core/cpu/row_loops-inl.hpp"

// Plain loops that the compiler vectorises for each target.

HWY_BEFORE_NAMESPACE();
namespace heliograph::cpu {
namespace HWY_NAMESPACE {

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

void Axpby(float alpha, ConstMatrixView x, float beta, MatrixView y, std::int64_t begin,
           std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    float* HWY_RESTRICT o = y.row(r);
    const float* HWY_RESTRICT in = x.row(r);
    if (beta == 0.0F) {
      for (std::int64_t c = 0; c < y.cols; ++c) o[c] = alpha * in[c];
    } else {
      for (std::int64_t c = 0; c < y.cols; ++c) o[c] = beta * o[c] + alpha * in[c];
    }
  }
}

template <class T>
T dot_row(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, std::int64_t n) {
  return lane_sum<T>(n,
                     [&](std::int64_t c) { return static_cast<T>(a[c]) * static_cast<T>(b[c]); });
}

double DotRows(ConstMatrixView a, ConstMatrixView b, bool fp64, std::int64_t begin,
               std::int64_t end) {
  double sum = 0;
  for (std::int64_t r = begin; r < end; ++r) {
    sum += fp64 ? dot_row<double>(a.row(r), b.row(r), a.cols)
                : static_cast<double>(dot_row<float>(a.row(r), b.row(r), a.cols));
  }
  return sum;
}

void GateForward(ConstMatrixView x, const float* s, float* score, bool accumulate, MatrixView out,
                 bool fp64, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const double z = fp64 ? dot_row<double>(x.row(r), s, x.cols)
                          : static_cast<double>(dot_row<float>(x.row(r), s, x.cols));
    const auto g = static_cast<float>(1.0 / (1.0 + std::exp(-z)));
    score[r] = g;
    const float* HWY_RESTRICT in = x.row(r);
    float* HWY_RESTRICT o = out.row(r);
    for (std::int64_t c = 0; c < x.cols; ++c) o[c] = (accumulate ? o[c] : 0.0F) + g * in[c];
  }
}

template <class T>
void gate_backward(ConstMatrixView x, const float* s, const float* score, ConstMatrixView d,
                   MatrixView dx, T* HWY_RESTRICT sums, std::int64_t begin, std::int64_t end) {
  for (std::int64_t c = 0; c < x.cols; ++c) sums[c] = 0;
  for (std::int64_t r = begin; r < end; ++r) {
    const float* HWY_RESTRICT in = x.row(r);
    const float* HWY_RESTRICT g = d.row(r);
    float* HWY_RESTRICT o = dx.row(r);
    const float slope = score[r] * (1.0F - score[r]);
    const float t = slope * static_cast<float>(dot_row<T>(g, in, x.cols));
    for (std::int64_t c = 0; c < x.cols; ++c) {
      o[c] = score[r] * g[c] + t * s[c];
      sums[c] += static_cast<T>(t) * static_cast<T>(in[c]);
    }
  }
}

void GateBackward(ConstMatrixView x, const float* s, const float* score, ConstMatrixView d,
                  MatrixView dx, void* sums, bool fp64, std::int64_t begin, std::int64_t end) {
  if (fp64) {
    gate_backward(x, s, score, d, dx, static_cast<double*>(sums), begin, end);
  } else {
    gate_backward(x, s, score, d, dx, static_cast<float*>(sums), begin, end);
  }
}

// Written so that NaN passes through.
void MaxForward(ConstMatrixView x, MatrixView out, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const float* HWY_RESTRICT in = x.row(r);
    float* HWY_RESTRICT o = out.row(r);
    for (std::int64_t c = 0; c < x.cols; ++c) o[c] = in[c] > o[c] || in[c] != in[c] ? in[c] : o[c];
  }
}

void MaxBackward(ConstMatrixView x, ConstMatrixView out, MatrixView d, MatrixView dx,
                 std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const float* HWY_RESTRICT in = x.row(r);
    const float* HWY_RESTRICT highest = out.row(r);
    float* HWY_RESTRICT g = d.row(r);
    float* HWY_RESTRICT o = dx.row(r);
    for (std::int64_t c = 0; c < x.cols; ++c) {
      const bool takes = in[c] == highest[c];
      o[c] = takes ? g[c] : 0.0F;
      g[c] = takes ? 0.0F : g[c];
    }
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

HWY_EXPORT(ColumnSums);
HWY_EXPORT(DropoutRows);
HWY_EXPORT(Axpby);
HWY_EXPORT(DotRows);
HWY_EXPORT(GateForward);
HWY_EXPORT(GateBackward);
HWY_EXPORT(MaxForward);
HWY_EXPORT(MaxBackward);
HWY_EXPORT(Spmm);
HWY_EXPORT(SpmmGradient);
HWY_EXPORT(Adam);

void column_sums_rows(ConstMatrixView d, void* partial, bool fp64, std::int64_t begin,
                      std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(ColumnSums)(d, partial, fp64, begin, end);
}

void dropout_rows(ConstMatrixView x, const Dropout& dropout, MatrixView out, std::int64_t begin,
                  std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(DropoutRows)(x, dropout, out, begin, end);
}

void axpby_rows(float alpha, ConstMatrixView x, float beta, MatrixView y, std::int64_t begin,
                std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(Axpby)(alpha, x, beta, y, begin, end);
}

double dot_rows(ConstMatrixView a, ConstMatrixView b, bool fp64, std::int64_t begin,
                std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(DotRows)(a, b, fp64, begin, end);
}

void gate_forward_rows(ConstMatrixView x, const float* s, float* score, bool accumulate,
                       MatrixView out, bool fp64, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(GateForward)(x, s, score, accumulate, out, fp64, begin, end);
}

void gate_backward_rows(ConstMatrixView x, const float* s, const float* score, ConstMatrixView d,
                        MatrixView dx, void* partial, bool fp64, std::int64_t begin,
                        std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(GateBackward)(x, s, score, d, dx, partial, fp64, begin, end);
}

void max_forward_rows(ConstMatrixView x, MatrixView out, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(MaxForward)(x, out, begin, end);
}

void max_backward_rows(ConstMatrixView x, ConstMatrixView out, MatrixView d, MatrixView dx,
                       std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(MaxBackward)(x, out, d, dx, begin, end);
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
