#include <cmath>
#include <type_traits>

#include "core/cpu/attention.hpp"
#include "core/cpu/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/attention_simd.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// after foreach_target
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "core/cpu/row_loops-inl.hpp"

// Plain loops that the compiler vectorises for each target, but for the exponential function.

HWY_BEFORE_NAMESPACE();
namespace heliograph::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T, class A, class B>
HWY_INLINE T dot_of(const A* HWY_RESTRICT a, const B* HWY_RESTRICT b, std::int64_t n) {
  return lane_sum<T>(n,
                     [&](std::int64_t c) { return static_cast<T>(a[c]) * static_cast<T>(b[c]); });
}

/// A head's columns of a row that has columns of each head, or of all heads together.
HWY_INLINE const float* head_of(ConstMatrixView m, std::int64_t row, int h, std::int64_t cols) {
  return m.row(row) + (m.cols == cols ? 0 : h * cols);
}

template <class T>
void attention_scores(ConstMatrixView x, const float* source, const float* target, MatrixView s,
                      MatrixView t, std::int64_t begin, std::int64_t end) {
  const std::int64_t cols = x.cols / s.cols;
  for (std::int64_t r = begin; r < end; ++r) {
    for (std::int64_t h = 0; h < s.cols; ++h) {
      const float* head = x.row(r) + h * cols;
      s.row(r)[h] = static_cast<float>(dot_of<T>(head, source + h * cols, cols));
      t.row(r)[h] = static_cast<float>(dot_of<T>(head, target + h * cols, cols));
    }
  }
}

void AttentionScores(ConstMatrixView x, const float* source, const float* target, MatrixView s,
                     MatrixView t, bool fp64, std::int64_t begin, std::int64_t end) {
  if (fp64) {
    attention_scores<double>(x, source, target, s, t, begin, end);
  } else {
    attention_scores<float>(x, source, target, s, t, begin, end);
  }
}

WeightTotals<float> WeighEntries(float* x, std::int64_t count, float row_score, float slope,
                                 float shift, const float* shifts, const float* factors) {
  const hn::CappedTag<float, kLanes> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  const auto row = hn::Set(d, row_score), low = hn::Set(d, slope), common = hn::Set(d, shift);
  auto positive = zero, other = zero;
  const auto weigh = [&](auto score, auto by, auto factor) HWY_ATTR {
    const auto above = hn::Gt(score, zero);
    const auto leaky = hn::IfThenElse(above, score, hn::Mul(score, low));
    const auto exponent = hn::Sub(leaky, by);
    // Exp would turn NaN into 0 and hide it.
    const auto w = hn::IfThenElse(hn::IsNaN(exponent), exponent, hn::Exp(d, exponent));
    const auto counted = hn::Mul(w, factor);
    positive = hn::Add(positive, hn::IfThenElseZero(above, counted));
    other = hn::Add(other, hn::IfThenZeroElse(above, counted));
    return hn::IfThenElse(above, w, hn::Neg(w));
  };
  std::int64_t e = 0;
  for (; e + lanes <= count; e += lanes) {
    const auto by = shifts == nullptr ? common : hn::LoadU(d, shifts + e);
    const auto factor = factors == nullptr ? hn::Set(d, 1.0F) : hn::LoadU(d, factors + e);
    hn::StoreU(weigh(hn::Add(row, hn::LoadU(d, x + e)), by, factor), d, x + e);
  }
  if (e < count) {
    HWY_ALIGN float last[3][kLanes] = {};  // factors of 0 past the last entry
    for (std::int64_t i = e; i < count; ++i) {
      last[0][i - e] = x[i];
      last[1][i - e] = shifts == nullptr ? shift : shifts[i];
      last[2][i - e] = factors == nullptr ? 1.0F : factors[i];
    }
    // Past the last entry, the weight is 1, so that no infinity meets the factor 0.
    for (std::int64_t i = count; i < e + lanes; ++i) last[0][i - e] = -row_score;
    hn::Store(weigh(hn::Add(row, hn::Load(d, last[0])), hn::Load(d, last[1]), hn::Load(d, last[2])),
              d, last[0]);
    for (std::int64_t i = e; i < count; ++i) x[i] = last[0][i - e];
  }
  return {hn::GetLane(hn::SumOfLanes(d, positive)), hn::GetLane(hn::SumOfLanes(d, other))};
}

template <class T>
void attention_output(const AttentionTotals<T>& sums, int heads, MatrixView out,
                      MatrixView positive, MatrixView share, MatrixView log_total,
                      std::int64_t begin, std::int64_t end) {
  const std::int64_t cols = out.cols / heads;
  for (std::int64_t r = begin; r < end; ++r) {
    const T* const totals = sums.rows.row(r);
    for (int h = 0; h < heads; ++h) {
      const T total = totals[heads + h] + totals[2 * heads + h];
      const T inverse = 1 / total;
      const T* const p = sums.positive.row(r) + h * cols;
      const T* const o = sums.other.row(r) + h * cols;
      float* const to = out.row(r) + h * cols;
      for (std::int64_t c = 0; c < cols; ++c) to[c] = static_cast<float>((p[c] + o[c]) * inverse);
      if (positive.data == nullptr) continue;
      float* const kept = positive.row(r) + h * cols;
      for (std::int64_t c = 0; c < cols; ++c) kept[c] = static_cast<float>(p[c] * inverse);
      share.row(r)[h] = static_cast<float>(totals[heads + h] * inverse);
      log_total.row(r)[h] = static_cast<float>(totals[h] + std::log(total));
    }
  }
}

void AttentionOutput(const AttentionSums& sums, int heads, MatrixView out, MatrixView positive,
                     MatrixView share, MatrixView log_total, std::int64_t begin, std::int64_t end) {
  if (sums.f64.rows.data != nullptr) {
    attention_output(sums.f64, heads, out, positive, share, log_total, begin, end);
  } else {
    attention_output(sums.f32, heads, out, positive, share, log_total, begin, end);
  }
}

template <class T>
void attention_target_gradient(ConstMatrixView d, float factor, float slope, ConstMatrixView out,
                               ConstMatrixView positive, ConstMatrixView share, MatrixView r,
                               MatrixView dt, std::int64_t begin, std::int64_t end) {
  const std::int64_t cols = out.cols / r.cols;
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t h = 0; h < r.cols; ++h) {
      const float* const g = head_of(d, i, static_cast<int>(h), cols);
      const T all = static_cast<T>(factor) * dot_of<T>(g, out.row(i) + h * cols, cols);
      r.row(i)[h] = static_cast<float>(all);
      if (dt.data == nullptr) continue;
      const T above = static_cast<T>(factor) * dot_of<T>(g, positive.row(i) + h * cols, cols);
      dt.row(i)[h] = static_cast<float>((1 - static_cast<T>(slope)) *
                                        (above - static_cast<T>(share.row(i)[h]) * all));
    }
  }
}

void AttentionTargetGradient(ConstMatrixView d, float factor, float slope, ConstMatrixView out,
                             ConstMatrixView positive, ConstMatrixView share, MatrixView r,
                             MatrixView dt, bool fp64, std::int64_t begin, std::int64_t end) {
  if (fp64) {
    attention_target_gradient<double>(d, factor, slope, out, positive, share, r, dt, begin, end);
  } else {
    attention_target_gradient<float>(d, factor, slope, out, positive, share, r, dt, begin, end);
  }
}

template <class T>
void attention_source_gradient(ConstMatrixView x, const float* source, const float* target,
                               float factor, float slope, const AttentionTotals<T>& sums,
                               ConstMatrixView dt, MatrixView dx, T* g_source, std::int64_t begin,
                               std::int64_t end) {
  const std::int64_t heads = dt.cols, cols = x.cols / heads;
  const T low = static_cast<T>(slope), scale = static_cast<T>(factor);
  T* const g_target = g_source + x.cols;
  for (std::int64_t c = 0; c < 2 * x.cols; ++c) g_source[c] = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t at = h * cols;
      const float* const in = x.row(i) + at;
      // dx may lie where these sums lie.
      const T* const p = sums.positive.row(i) + at;
      const T* const o = sums.other.row(i) + at;
      const T* const totals = sums.rows.row(i);
      const T dot = scale * lane_sum<T>(cols, [&](std::int64_t c) {
                      return static_cast<T>(in[c]) * (p[c] + low * o[c]);
                    });
      const T ds = dot + totals[h] - (totals[heads + h] + low * totals[2 * heads + h]);
      const T dt_i = static_cast<T>(dt.row(i)[h]);
      float* const to = dx.row(i) + at;
      for (std::int64_t c = 0; c < cols; ++c) {
        to[c] = static_cast<float>(scale * (p[c] + o[c]) + static_cast<T>(source[at + c]) * ds +
                                   static_cast<T>(target[at + c]) * dt_i);
      }
      for (std::int64_t c = 0; c < cols; ++c) g_source[at + c] += ds * static_cast<T>(in[c]);
      for (std::int64_t c = 0; c < cols; ++c) g_target[at + c] += dt_i * static_cast<T>(in[c]);
    }
  }
}

void AttentionSourceGradient(ConstMatrixView x, const float* source, const float* target,
                             float factor, float slope, const AttentionSums& sums,
                             ConstMatrixView dt, MatrixView dx, void* partial, std::int64_t begin,
                             std::int64_t end) {
  if (sums.f64.rows.data != nullptr) {
    attention_source_gradient(x, source, target, factor, slope, sums.f64, dt, dx,
                              static_cast<double*>(partial), begin, end);
  } else {
    attention_source_gradient(x, source, target, factor, slope, sums.f32, dt, dx,
                              static_cast<float*>(partial), begin, end);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heliograph::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heliograph::cpu {

HWY_EXPORT(AttentionScores);
HWY_EXPORT(WeighEntries);
HWY_EXPORT(AttentionOutput);
HWY_EXPORT(AttentionTargetGradient);
HWY_EXPORT(AttentionSourceGradient);

void attention_scores_rows(ConstMatrixView x, const float* source, const float* target,
                           MatrixView s, MatrixView t, bool fp64, std::int64_t begin,
                           std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(AttentionScores)(x, source, target, s, t, fp64, begin, end);
}

WeightTotals<float> weigh_entries(float* x, std::int64_t count, float row_score, float slope,
                                  float shift, const float* shifts, const float* factors) {
  return HWY_DYNAMIC_DISPATCH(WeighEntries)(x, count, row_score, slope, shift, shifts, factors);
}

void attention_output_rows(const AttentionSums& sums, int heads, MatrixView out,
                           MatrixView positive, MatrixView share, MatrixView log_total,
                           std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(AttentionOutput)
  (sums, heads, out, positive, share, log_total, begin, end);
}

void attention_target_gradient_rows(ConstMatrixView d, float factor, float slope,
                                    ConstMatrixView out, ConstMatrixView positive,
                                    ConstMatrixView share, MatrixView r, MatrixView dt, bool fp64,
                                    std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(AttentionTargetGradient)
  (d, factor, slope, out, positive, share, r, dt, fp64, begin, end);
}

void attention_source_gradient_rows(ConstMatrixView x, const float* source, const float* target,
                                    float factor, float slope, const AttentionSums& sums,
                                    ConstMatrixView dt, MatrixView dx, void* partial,
                                    std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(AttentionSourceGradient)
  (x, source, target, factor, slope, sums, dt, dx, partial, begin, end);
}

}  // namespace heliograph::cpu
#endif
