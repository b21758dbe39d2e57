#include <bit>
#include <cmath>
#include <cstring>

#include "core/cpu/rows.hpp"
#include "core/cpu/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/norm_act_simd.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// after foreach_target
#include <hwy/highway.h>

#include "core/cpu/row_loops-inl.hpp"

// Plain loops that the compiler vectorises for each target.

HWY_BEFORE_NAMESPACE();
namespace heliograph::cpu {
namespace HWY_NAMESPACE {

constexpr float kNormalDensity0 = 0.39894228F;  // 1 / sqrt(2 pi)

/// For x <= 0: p * exp(r), where p = 2^n is a power of 2 and |r| <= ln 2 / 2, is exp(x). Values
/// below -87 count as -87.
struct Exponential {
  float power;
  float expm1;  ///< exp(r) - 1
};

/// Unlike std::exp it vectorises.
HWY_INLINE Exponential exponential(float x) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
  x = x < -87.0F ? -87.0F : x;
  const float shifted = x * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;  // ln 2 in two parts
  const float series =
      r * (1.0F + r * (0.5F + r * (1.0F / 6 + r * (1.0F / 24 + r * (1.0F / 120 + r / 720)))));
  const auto power = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRound);
  return {std::bit_cast<float>((power + 127U) << 23), series};
}

/// exp(x) for x <= 0, to a relative error of 3e-7.
HWY_INLINE float exp_negative(float x) {
  const Exponential e = exponential(x);
  return (1.0F + e.expm1) * e.power;
}

/// exp(x) - 1 for x <= 0, to a relative error of 5e-7.
HWY_INLINE float expm1_negative(float x) {
  const Exponential e = exponential(x);
  return e.expm1 * e.power + (e.power - 1.0F);  // Near 0 the power is 1: nothing cancels.
}

/// The normal distribution function to 1e-7 (Abramowitz and Stegun, 1964, 7.1.26), and
/// exp(-z^2 / 2), which it computes on the way.
HWY_INLINE float normal_distribution(float z, float& bell) {
  const float x = 0.70710678F * (z < 0.0F ? -z : z);
  const float t = 1.0F / (1.0F + 0.3275911F * x);
  bell = exp_negative(-x * x);
  const float tail =
      0.5F * bell * t *
      (0.254829592F +
       t * (-0.284496736F + t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F))));
  return z < 0.0F ? tail : 1.0F - tail;
}

// Written so that NaN passes through instead of becoming 0.
template <ActivationFunction kFunction>
HWY_INLINE float activate(float z) {
  switch (kFunction) {
    case ActivationFunction::none:
      return z;
    case ActivationFunction::relu:
      return z < 0.0F ? 0.0F : z;
    case ActivationFunction::gelu: {
      float bell;
      return z * normal_distribution(z, bell);
    }
    case ActivationFunction::elu: {
      const float below = expm1_negative(z > 0.0F ? 0.0F : z);
      return z > 0.0F ? z : below;
    }
  }
}

/// upstream * the activation function's slope at z.
template <ActivationFunction kFunction>
HWY_INLINE float times_slope(float upstream, float z) {
  switch (kFunction) {
    case ActivationFunction::none:
      return upstream;
    case ActivationFunction::relu:
      return z > 0.0F ? upstream : 0.0F;
    case ActivationFunction::gelu: {
      float bell;
      const float distribution = normal_distribution(z, bell);
      return upstream * (distribution + z * kNormalDensity0 * bell);
    }
    case ActivationFunction::elu: {
      const float below = exp_negative(z > 0.0F ? 0.0F : z);
      return z > 0.0F ? upstream : upstream * below;
    }
  }
}

/// Calls body.template operator()<T, function>() for the type of sums and the activation function.
template <class Body>
void specialise(bool fp64, ActivationFunction function, const Body& body) {
  const auto with = [&]<class T>(T) {
    switch (function) {
      case ActivationFunction::none:
        return body.template operator()<T, ActivationFunction::none>();
      case ActivationFunction::relu:
        return body.template operator()<T, ActivationFunction::relu>();
      case ActivationFunction::gelu:
        return body.template operator()<T, ActivationFunction::gelu>();
      case ActivationFunction::elu:
        return body.template operator()<T, ActivationFunction::elu>();
    }
  };
  if (fp64) {
    with(0.0);
  } else {
    with(0.0F);
  }
}

/// Mean and 1 / sqrt(variance + 1e-5) of a row.
template <class T>
HWY_INLINE void row_moments(const float* row, std::int64_t n, float* mean, float* rstd) {
  const T average =
      lane_sum<T>(n, [&](std::int64_t c) { return static_cast<T>(row[c]); }) / static_cast<T>(n);
  const T var = lane_sum<T>(n,
                            [&](std::int64_t c) {
                              const T d = static_cast<T>(row[c]) - average;
                              return d * d;
                            }) /
                static_cast<T>(n);
  // An overflowing variance would scale the row to 0 unnoticed; NaN is reported.
  const T inverse = T(1) / std::sqrt(var + T(1e-5));
  *mean = static_cast<float>(average);
  *rstd = static_cast<float>(std::isfinite(var) ? inverse : var - var);
}

template <class T, ActivationFunction kFunction>
void norm_act_forward(ConstMatrixView y, const NormAct& p, ConstMatrixView residual, MatrixView out,
                      std::int64_t begin, std::int64_t end) {
  const std::int64_t n = y.cols;
  const float* HWY_RESTRICT bias = p.bias;
  const float* HWY_RESTRICT gain = p.gain;
  const float* HWY_RESTRICT shift = p.shift;
  for (std::int64_t r = begin; r < end; ++r) {
    const float* HWY_RESTRICT in = y.row(r);
    float* HWY_RESTRICT o = out.row(r);
    if (bias != nullptr) {
      for (std::int64_t c = 0; c < n; ++c) o[c] = in[c] + bias[c];
    } else {
      std::memcpy(o, in, static_cast<std::size_t>(n) * sizeof(float));
    }
    if (p.by_column) {
      const float* HWY_RESTRICT mean = p.mean;
      const float* HWY_RESTRICT rstd = p.rstd;
      for (std::int64_t c = 0; c < n; ++c) o[c] = (o[c] - mean[c]) * rstd[c] * gain[c] + shift[c];
    } else if (gain != nullptr) {
      row_moments<T>(o, n, p.mean + r, p.rstd + r);
      const float m = p.mean[r];
      const float s = p.rstd[r];
      for (std::int64_t c = 0; c < n; ++c) o[c] = (o[c] - m) * s * gain[c] + shift[c];
    }
    for (std::int64_t c = 0; c < n; ++c) o[c] = activate<kFunction>(o[c]);
    if (residual.data != nullptr) {
      const float* HWY_RESTRICT x = residual.row(r);
      for (std::int64_t c = 0; c < n; ++c) o[c] += x[c];
    }
    if (p.dropout.active()) drop_row(p.dropout, r, o, o, n);
  }
}

void NormActForward(ConstMatrixView y, const NormAct& p, ConstMatrixView residual, MatrixView out,
                    bool fp64, std::int64_t begin, std::int64_t end) {
  specialise(fp64, p.activation, [&]<class T, ActivationFunction kFunction>() {
    norm_act_forward<T, kFunction>(y, p, residual, out, begin, end);
  });
}

// The row loops are separate functions because only `restrict` on parameters lets the compiler
// vectorise loops over this many arrays.

template <class T, ActivationFunction kFunction>
HWY_NOINLINE void act_backward_row(std::int64_t n, const float* HWY_RESTRICT in,
                                   const float* HWY_RESTRICT bias, float* HWY_RESTRICT g,
                                   T* HWY_RESTRICT bias_sum) {
  for (std::int64_t c = 0; c < n; ++c) {
    const float dz = times_slope<kFunction>(g[c], in[c] + (bias == nullptr ? 0.0F : bias[c]));
    g[c] = dz;
    bias_sum[c] += dz;
  }
}

/// BatchNorm up to its sums over all rows: g becomes the gradient of the normalised row.
template <class T, ActivationFunction kFunction>
HWY_NOINLINE void batch_act_backward_row(std::int64_t n, const float* HWY_RESTRICT in,
                                         const float* HWY_RESTRICT gain,
                                         const float* HWY_RESTRICT shift,
                                         const float* HWY_RESTRICT mean,
                                         const float* HWY_RESTRICT rstd, float* HWY_RESTRICT g,
                                         T* HWY_RESTRICT gain_sum, T* HWY_RESTRICT shift_sum) {
  for (std::int64_t c = 0; c < n; ++c) {
    const float x = (in[c] - mean[c]) * rstd[c];
    const float dz = times_slope<kFunction>(g[c], x * gain[c] + shift[c]);
    gain_sum[c] += static_cast<T>(dz) * static_cast<T>(x);
    shift_sum[c] += static_cast<T>(dz);
    g[c] = dz;
  }
}

template <class T, ActivationFunction kFunction>
HWY_NOINLINE void norm_backward_row(std::int64_t n, const float* HWY_RESTRICT in,
                                    const float* HWY_RESTRICT bias, const float* HWY_RESTRICT gain,
                                    const float* HWY_RESTRICT shift, float mean, float rstd,
                                    float* HWY_RESTRICT g, float* HWY_RESTRICT normalised,
                                    T* HWY_RESTRICT bias_sum, T* HWY_RESTRICT gain_sum,
                                    T* HWY_RESTRICT shift_sum) {
  for (std::int64_t c = 0; c < n; ++c) {
    const float x = (in[c] + (bias == nullptr ? 0.0F : bias[c]) - mean) * rstd;
    const float dz = times_slope<kFunction>(g[c], x * gain[c] + shift[c]);
    normalised[c] = x;
    gain_sum[c] += static_cast<T>(dz) * static_cast<T>(x);
    shift_sum[c] += static_cast<T>(dz);
    g[c] = dz * gain[c];
  }
  const T g_sum = lane_sum<T>(n, [&](std::int64_t c) { return static_cast<T>(g[c]); });
  const T gx_sum = lane_sum<T>(
      n, [&](std::int64_t c) { return static_cast<T>(g[c]) * static_cast<T>(normalised[c]); });
  const auto a = static_cast<float>(g_sum / static_cast<T>(n));
  const auto b = static_cast<float>(gx_sum / static_cast<T>(n));
  for (std::int64_t c = 0; c < n; ++c) {
    const float dy = rstd * (g[c] - a - normalised[c] * b);
    g[c] = dy;
    bias_sum[c] += static_cast<T>(dy);
  }
}

/// `sums` has room for 4 * y.cols values; the last y.cols are scratch.
template <class T, ActivationFunction kFunction>
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
      act_backward_row<T, kFunction>(n, y.row(r), p.bias, g, sums);
    } else if (p.by_column) {
      batch_act_backward_row<T, kFunction>(n, y.row(r), p.gain, p.shift, p.mean, p.rstd, g,
                                           sums + n, sums + 2 * n);
    } else {
      norm_backward_row<T, kFunction>(n, y.row(r), p.bias, p.gain, p.shift, p.mean[r], p.rstd[r], g,
                                      normalised, sums, sums + n, sums + 2 * n);
    }
  }
}

void NormActBackward(ConstMatrixView y, const NormAct& p, MatrixView d, MatrixView residual,
                     void* sums, bool fp64, std::int64_t begin, std::int64_t end) {
  specialise(fp64, p.activation, [&]<class T, ActivationFunction kFunction>() {
    norm_act_backward<T, kFunction>(y, p, d, residual, static_cast<T*>(sums), begin, end);
  });
}

void BatchNormBackward(ConstMatrixView y, const NormAct& p, const float* gain_mean,
                       const float* shift_mean, MatrixView d, std::int64_t begin,
                       std::int64_t end) {
  const float* HWY_RESTRICT gain = p.gain;
  const float* HWY_RESTRICT mean = p.mean;
  const float* HWY_RESTRICT rstd = p.rstd;
  const float* HWY_RESTRICT gains = gain_mean;
  const float* HWY_RESTRICT shifts = shift_mean;
  for (std::int64_t r = begin; r < end; ++r) {
    const float* HWY_RESTRICT in = y.row(r);
    float* HWY_RESTRICT g = d.row(r);
    for (std::int64_t c = 0; c < y.cols; ++c) {
      const float x = (in[c] - mean[c]) * rstd[c];
      g[c] = gain[c] * rstd[c] * (g[c] - shifts[c] - x * gains[c]);
    }
  }
}

void ColumnMoments(ConstMatrixView y, const float* center, double* sums, std::int64_t begin,
                   std::int64_t end) {
  double* HWY_RESTRICT first = sums;
  double* HWY_RESTRICT second = sums + y.cols;
  for (std::int64_t c = 0; c < 2 * y.cols; ++c) sums[c] = 0;
  for (std::int64_t r = begin; r < end; ++r) {
    const float* HWY_RESTRICT in = y.row(r);
    for (std::int64_t c = 0; c < y.cols; ++c) {
      const double x = static_cast<double>(in[c]) - static_cast<double>(center[c]);
      first[c] += x;
      second[c] += x * x;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heliograph::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heliograph::cpu {

HWY_EXPORT(NormActForward);
HWY_EXPORT(NormActBackward);
HWY_EXPORT(BatchNormBackward);
HWY_EXPORT(ColumnMoments);

void norm_act_forward_rows(ConstMatrixView y, const NormAct& p, ConstMatrixView residual,
                           MatrixView out, bool fp64, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(NormActForward)(y, p, residual, out, fp64, begin, end);
}

void norm_act_backward_rows(ConstMatrixView y, const NormAct& p, MatrixView d,
                            MatrixView residual_gradient, void* partial, bool fp64,
                            std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(NormActBackward)(y, p, d, residual_gradient, partial, fp64, begin, end);
}

void batch_norm_backward_rows(ConstMatrixView y, const NormAct& p, const float* gain_mean,
                              const float* shift_mean, MatrixView d, std::int64_t begin,
                              std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(BatchNormBackward)(y, p, gain_mean, shift_mean, d, begin, end);
}

void column_moments_rows(ConstMatrixView y, const float* center, double* sums, std::int64_t begin,
                         std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(ColumnMoments)(y, center, sums, begin, end);
}

}  // namespace heliograph::cpu
#endif
