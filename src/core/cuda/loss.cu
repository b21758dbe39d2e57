#include <cmath>

#include "core/cuda/kernel_calls.hpp"
#include "core/cuda/launch.hpp"
#include "core/cuda/sums.hpp"

namespace heliograph::cuda {
namespace {

// A lane works on the columns lane, lane + 32, ... and touches only these in `out`.

struct Softmax {
  ClassTargets targets;

  __device__ bool counts(std::int64_t r) const { return targets.class_of[r] >= 0; }
  __device__ float weight(std::int64_t c) const {
    return targets.weights == nullptr ? 1.0F : targets.weights[c];
  }
  __device__ double loss(const float* z, std::int64_t classes, std::int64_t r, float scale,
                         float* out) const {
    const std::int32_t target = targets.class_of[r];
    const float kept = (1.0F - targets.smoothing) * weight(target);
    const float spread = targets.smoothing / static_cast<float>(classes);
    float mass = kept;  // The sum of the row's target values.
    if (spread > 0.0F) {
      float total = 0;
      for (std::int64_t c = lane(); c < classes; c += kWarp) total += weight(c);
      mass += spread * warp_sum(total);
    }
    float top = -HUGE_VALF;
    float poison = 0;  // NaN after NaN or Inf, which the maximum would hide from the loss
    for (std::int64_t c = lane(); c < classes; c += kWarp) {
      top = z[c] > top ? z[c] : top;
      poison += z[c] * 0.0F;
    }
    top = warp_max(top);
    float sum = 0;
    for (std::int64_t c = lane(); c < classes; c += kWarp) {
      const float e = std::exp(z[c] - top);
      sum += e;
      out[c] = e;
    }
    sum = warp_sum(sum);
    const float factor = mass * scale / sum;
    for (std::int64_t c = lane(); c < classes; c += kWarp) {
      out[c] = out[c] * factor - (c == target ? scale * kept : 0.0F);
    }
    poison = warp_sum(poison);
    double loss =
        static_cast<double>(mass) * std::log(static_cast<double>(sum)) +
        static_cast<double>(kept) * (static_cast<double>(top) - static_cast<double>(z[target])) +
        static_cast<double>(poison);
    if (spread > 0.0F) {
      float behind = 0;
      for (std::int64_t c = lane(); c < classes; c += kWarp) {
        behind += weight(c) * (top - z[c]);
        out[c] -= scale * spread * weight(c);
      }
      loss += static_cast<double>(spread) * static_cast<double>(warp_sum(behind));
    }
    return loss;
  }
};

struct Binary {
  const std::uint8_t* indicators;
  const std::uint8_t* mask;

  __device__ bool counts(std::int64_t r) const { return mask[r] != 0; }
  /// softplus(z) - y z; the exponent is never positive, so it cannot overflow.
  __device__ double loss(const float* z, std::int64_t classes, std::int64_t r, float scale,
                         float* out) const {
    const std::uint8_t* y = indicators + r * classes;
    float sum = 0;
    for (std::int64_t c = lane(); c < classes; c += kWarp) {
      const float v = z[c];
      const auto label = static_cast<float>(y[c]);
      const float e = std::exp(-std::abs(v));
      sum += (v > 0.0F ? v : 0.0F) - v * label + std::log1p(e);
      const float sigmoid = (v >= 0.0F ? 1.0F : e) / (1.0F + e);
      out[c] = (sigmoid - label) * scale;
    }
    return static_cast<double>(warp_sum(sum));
  }
};

struct Squared {
  const float* target;

  __device__ bool counts(std::int64_t r) const { return target[r] == target[r]; }  // not NaN
  __device__ double loss(const float* z, std::int64_t /*columns*/, std::int64_t r, float scale,
                         float* out) const {
    const double error = static_cast<double>(z[0]) - static_cast<double>(target[r]);
    if (lane() == 0) out[0] = static_cast<float>(2 * error * static_cast<double>(scale));
    return error * error;
  }
};

/// Warp w computes the rows w, w + parts, ... and the sum of their losses.
template <class Rows>
__global__ void loss_kernel(ConstMatrixView logits, Rows rows, float scale, MatrixView d,
                            std::int64_t parts, double* partials) {
  const std::int64_t part = global_warp();
  if (part >= parts) return;
  double loss = 0;
  for (std::int64_t r = part; r < logits.rows; r += parts) {
    if (rows.counts(r)) {
      loss += rows.loss(logits.row(r), logits.cols, r, scale, d.row(r));
    } else {
      for (std::int64_t c = lane(); c < logits.cols; c += kWarp) d.row(r)[c] = 0;
    }
  }
  if (lane() == 0) partials[part] = loss;
}

template <class Rows>
void sum_losses(Queue& queue, const char* name, ConstMatrixView logits, const Rows& rows,
                float scale, MatrixView d, double* partials, double* sum) {
  const std::int64_t parts = sum_parts(queue, logits.rows);
  launch(queue, name, loss_kernel<Rows>, cover_by_warps(parts), logits, rows, scale, d, parts,
         partials);
  add_partials(queue, partials, parts, sum);
}

}  // namespace

std::int64_t loss_partials(std::int64_t rows) { return sum_parts(rows); }

void softmax_cross_entropy(Queue& queue, ConstMatrixView logits, const ClassTargets& targets,
                           float scale, MatrixView d, double* partials, double* sum) {
  sum_losses(queue, "softmax loss", logits, Softmax{targets}, scale, d, partials, sum);
}

void squared_error(Queue& queue, ConstMatrixView values, const float* target, float scale,
                   MatrixView d, double* partials, double* sum) {
  sum_losses(queue, "squared loss", values, Squared{target}, scale, d, partials, sum);
}

void binary_cross_entropy(Queue& queue, ConstMatrixView logits, const std::uint8_t* indicators,
                          const std::uint8_t* mask, float scale, MatrixView d, double* partials,
                          double* sum) {
  sum_losses(queue, "binary loss", logits, Binary{indicators, mask}, scale, d, partials, sum);
}

}  // namespace heliograph::cuda
