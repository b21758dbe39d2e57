#include <cmath>

#include "core/cuda/dropout.hpp"
#include "core/cuda/kernel_calls.hpp"
#include "core/cuda/launch.hpp"
#include "core/cuda/row_columns.hpp"
#include "core/cuda/sums.hpp"

namespace heliograph::cuda {
namespace {

// One warp works on a row.

/// NormAct as an argument of CUDA kernels.
struct Parameters {
  const float* bias;
  const float* gain;
  const float* shift;
  float* mean;
  float* rstd;
  bool by_column;
  ActivationFunction activation;
  KeepMask mask;
};

Parameters parameters(const NormAct& p) {
  return {p.bias, p.gain, p.shift, p.mean, p.rstd, p.by_column, p.activation, keep_mask(p.dropout)};
}

constexpr float kRootHalf = 0.70710678F;        // 1 / sqrt(2)
constexpr float kNormalDensity0 = 0.39894228F;  // 1 / sqrt(2 pi)

// Written so that NaN passes through instead of becoming 0.
__device__ float activate(ActivationFunction function, float z) {
  switch (function) {
    case ActivationFunction::none:
      break;
    case ActivationFunction::relu:
      return z < 0.0F ? 0.0F : z;
    case ActivationFunction::gelu:
      return 0.5F * z * (1.0F + std::erf(z * kRootHalf));
    case ActivationFunction::elu:
      return z > 0.0F ? z : std::expm1(z);
  }
  return z;
}

/// upstream * the activation function's slope at z.
__device__ float times_slope(ActivationFunction function, float upstream, float z) {
  switch (function) {
    case ActivationFunction::none:
      break;
    case ActivationFunction::relu:
      return z > 0.0F ? upstream : 0.0F;
    case ActivationFunction::gelu:
      return upstream * (0.5F * (1.0F + std::erf(z * kRootHalf)) +
                         z * kNormalDensity0 * std::exp(-0.5F * z * z));
    case ActivationFunction::elu:
      return z > 0.0F ? upstream : upstream * std::exp(z);
  }
  return upstream;
}

__device__ float biased_value(const Parameters& p, float in, std::int64_t c) {
  return p.bias != nullptr ? in + p.bias[c] : in;
}

/// The input of the activation function. Forward and backward share it, since they must agree on
/// ReLU's sign.
__device__ float scaled(float normalised, float gain, float shift) {
  return fmaf(normalised, gain, shift);
}

template <int kHeld>
__global__ void norm_act_forward_kernel(ConstMatrixView y, Parameters p, ConstMatrixView residual,
                                        MatrixView out) {
  const std::int64_t r = global_warp();
  if (r >= y.rows) return;
  using Values = LaneValues<kHeld>;
  const Values in(y.row(r), y.cols);
  const Values passed(residual.data != nullptr ? residual.row(r) : nullptr, y.cols);
  const Values gain(p.gain, y.cols);
  const Values shift(p.shift, y.cols);
  float held[kHeldColumns];
  float sum = 0;
  each_column<kHeld>(y.cols, [&](int i, std::int64_t c) {
    held[i] = biased_value(p, in(i, c), c);
    sum += held[i];
  });
  const auto biased = [&](int i, std::int64_t c) {
    return kHeld > 0 ? held[i] : biased_value(p, in(i, c), c);
  };
  float mean = 0;
  float rstd = 1;
  if (p.gain != nullptr && !p.by_column) {
    const auto count = static_cast<float>(y.cols);
    mean = warp_sum(sum) / count;
    float squares = 0;
    each_column<kHeld>(y.cols, [&](int i, std::int64_t c) {
      const float distance = biased(i, c) - mean;
      squares += distance * distance;
    });
    const float variance = warp_sum(squares) / count;
    // An overflowing variance would scale the row to 0 unnoticed; NaN is reported.
    rstd = std::isfinite(variance) ? 1.0F / std::sqrt(variance + 1e-5F) : variance - variance;
  }
  const std::uint64_t key = keep_key(p.mask, r);
  const auto result = [&](int i, std::int64_t c) {
    float value = biased(i, c);
    if (p.by_column) {
      value = scaled((value - p.mean[c]) * p.rstd[c], gain(i, c), shift(i, c));
    } else if (p.gain != nullptr) {
      value = scaled((value - mean) * rstd, gain(i, c), shift(i, c));
    }
    value = activate(p.activation, value);
    if (residual.data != nullptr) value += passed(i, c);
    if (p.mask.threshold != 0) value *= keep_factor(p.mask, key, c);
    return value;
  };
  if constexpr (kHeld > 0) {
    each_column<kHeld>(y.cols, [&](int i, std::int64_t c) { held[i] = result(i, c); });
  }
  each_column<kHeld>(
      y.cols, [&](int i, std::int64_t c) { out.row(r)[c] = kHeld > 0 ? held[i] : result(i, c); });
  if (p.gain != nullptr && !p.by_column && lane() == 0) {
    p.mean[r] = mean;
    p.rstd[r] = rstd;
  }
}

/// Warp w computes the rows w, w + parts, ... and their partial sums.
template <int kHeld, bool kNorm>
__global__ void __launch_bounds__(kSumThreads, kSumBlocks)
    norm_act_backward_kernel(ConstMatrixView y, Parameters p, MatrixView d, MatrixView residual,
                             std::int64_t parts, float* partials) {
  const std::int64_t part = global_warp();
  if (part >= parts) return;
  constexpr int kSums = kNorm ? 3 : 1;
  float* stored = partials + part * kSums * y.cols;
  float sums[kSums][kHeldColumns] = {};
  // Sums of wider rows are kept in memory, where each lane touches only its own columns.
  if constexpr (kHeld == 0) {
    each_column<kHeld>(kSums * y.cols, [&](int, std::int64_t c) { stored[c] = 0; });
    __syncwarp();
  }
  const auto add = [&](int which, int i, std::int64_t c, float value) {
    if constexpr (kHeld > 0) {
      sums[which][i] += value;
    } else {
      stored[which * y.cols + c] += value;
    }
  };
  using Values = LaneValues<kHeld>;
  const Values gain(p.gain, y.cols);
  const Values shift(p.shift, y.cols);
  for (std::int64_t r = part; r < y.rows; r += parts) {
    const Values in(y.row(r), y.cols);
    float* gradient = d.row(r);
    const Values gradients(gradient, y.cols);
    const std::uint64_t key = keep_key(p.mask, r);
    const bool by_row = kNorm && !p.by_column;
    const float mean = by_row ? p.mean[r] : 0.0F;
    const float rstd = by_row ? p.rstd[r] : 1.0F;
    const auto normalised = [&](int i, std::int64_t c) {
      const float biased = biased_value(p, in(i, c), c);
      if constexpr (!kNorm) return biased;
      return by_row ? (biased - mean) * rstd : (biased - p.mean[c]) * p.rstd[c];
    };
    float held_x[kHeldColumns] = {};
    if constexpr (kHeld > 0) {
      each_column<kHeld>(y.cols, [&](int i, std::int64_t c) { held_x[i] = normalised(i, c); });
    }
    float scaled_gradient[kHeldColumns];
    float g_sum = 0;
    float gx_sum = 0;
    each_column<kHeld>(y.cols, [&](int i, std::int64_t c) {
      float upstream = gradients(i, c);
      if (p.mask.threshold != 0) upstream *= keep_factor(p.mask, key, c);
      if (residual.data != nullptr) residual.row(r)[c] = upstream;
      const float x = kHeld > 0 ? held_x[i] : normalised(i, c);
      if constexpr (kNorm) {
        const float dz = times_slope(p.activation, upstream, scaled(x, gain(i, c), shift(i, c)));
        const float g = dz * gain(i, c);
        add(1, i, c, dz * x);
        add(2, i, c, dz);
        if (!by_row) {
          gradient[c] = dz;
          return;
        }
        g_sum += g;
        gx_sum += g * x;
        scaled_gradient[i] = g;
        if constexpr (kHeld == 0) gradient[c] = g;
      } else {
        const float dz = times_slope(p.activation, upstream, x);
        add(0, i, c, dz);
        gradient[c] = dz;
      }
    });
    if constexpr (kNorm) {
      if (!by_row) continue;
      const auto count = static_cast<float>(y.cols);
      const float a = warp_sum(g_sum) / count;
      const float b = warp_sum(gx_sum) / count;
      each_column<kHeld>(y.cols, [&](int i, std::int64_t c) {
        const float x = kHeld > 0 ? held_x[i] : normalised(i, c);
        const float g = kHeld > 0 ? scaled_gradient[i] : gradient[c];
        const float dy = rstd * (g - a - x * b);
        add(0, i, c, dy);
        gradient[c] = dy;
      });
    }
  }
  if constexpr (kHeld > 0) {
    each_column<kHeld>(y.cols, [&](int i, std::int64_t c) {
      for (int which = 0; which < kSums; ++which) stored[which * y.cols + c] = sums[which][i];
    });
  }
}

__global__ void dropout_kernel(ConstMatrixView x, KeepMask mask, MatrixView out) {
  const std::int64_t r = global_warp();
  if (r >= x.rows) return;
  const std::uint64_t key = keep_key(mask, r);
  for (std::int64_t c = lane(); c < x.cols; c += kWarp) {
    out.row(r)[c] = x.row(r)[c] * keep_factor(mask, key, c);
  }
}

}  // namespace

void norm_act_forward(Queue& queue, ConstMatrixView y, const NormAct& p, ConstMatrixView residual,
                      MatrixView out) {
  const auto kernel =
      y.cols <= kHeldRow ? norm_act_forward_kernel<kHeldColumns> : norm_act_forward_kernel<0>;
  launch(queue, "norm_act forward", kernel, cover_by_warps(y.rows), y, parameters(p), residual,
         out);
}

std::int64_t norm_act_partials(std::int64_t rows, std::int64_t cols, const NormAct& p) {
  return sum_parts(rows) * cols * (p.gain != nullptr ? 3 : 1);
}

void norm_act_backward(Queue& queue, ConstMatrixView y, const NormAct& p, MatrixView d,
                       MatrixView residual_gradient, const NormActGradients& g, float* partials) {
  const bool norm = p.gain != nullptr;
  const bool held = y.cols <= kHeldRow;
  const auto kernel = norm ? (held ? norm_act_backward_kernel<kHeldColumns, true>
                                   : norm_act_backward_kernel<0, true>)
                           : (held ? norm_act_backward_kernel<kHeldColumns, false>
                                   : norm_act_backward_kernel<0, false>);
  const std::int64_t parts = sum_parts(queue, y.rows);
  launch(queue, "norm_act backward", kernel, cover_by_warps(parts, kSumThreads), y, parameters(p),
         d, residual_gradient, parts, partials);
  add_partials(queue, partials, parts, y.cols, norm ? 3 : 1, {g.bias.f32, g.gain.f32, g.shift.f32},
               g.accumulate);
}

void dropout(Queue& queue, ConstMatrixView x, const Dropout& dropout, MatrixView out) {
  launch(queue, "dropout", dropout_kernel, cover_by_warps(x.rows), x, keep_mask(dropout), out);
}

}  // namespace heliograph::cuda
