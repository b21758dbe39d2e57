#include <cmath>

#include "core/cuda/launch.hpp"
#include "core/cuda/loss.hpp"
#include "core/cuda/sums.hpp"

namespace heliograph::cuda {
namespace {

/// Lanes look at the columns lane, lane + 32, ... and meet none but their own in `out`.
__device__ double softmax_row(const float* z, std::int64_t classes, std::int32_t target,
                              float scale, float* out) {
  float top = -HUGE_VALF;
  float poison = 0;  // The maximum hides NaN: what is not finite must reach the loss.
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
  const float factor = scale / sum;
  for (std::int64_t c = lane(); c < classes; c += kWarp) {
    out[c] = out[c] * factor - (c == target ? scale : 0.0F);
  }
  poison = warp_sum(poison);
  return std::log(static_cast<double>(sum)) +
         (static_cast<double>(top) - static_cast<double>(z[target])) + static_cast<double>(poison);
}

/// softplus(z) - y z, with the exponential of a negative number only.
__device__ double binary_row(const float* z, const std::uint8_t* y, std::int64_t classes,
                             float scale, float* out) {
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

__device__ void clear_row(float* out, std::int64_t classes) {
  for (std::int64_t c = lane(); c < classes; c += kWarp) out[c] = 0;
}

/// Warp w has the rows w, w + parts, ... and the sum of their losses.
__global__ void softmax_kernel(ConstMatrixView logits, const std::int32_t* target, float scale,
                               MatrixView d, std::int64_t parts, double* partials) {
  const std::int64_t part = global_warp();
  if (part >= parts) return;
  double loss = 0;
  for (std::int64_t r = part; r < logits.rows; r += parts) {
    if (target[r] < 0) {
      clear_row(d.row(r), logits.cols);
    } else {
      loss += softmax_row(logits.row(r), logits.cols, target[r], scale, d.row(r));
    }
  }
  if (lane() == 0) partials[part] = loss;
}

__global__ void binary_kernel(ConstMatrixView logits, const std::uint8_t* indicators,
                              const std::uint8_t* mask, float scale, MatrixView d,
                              std::int64_t parts, double* partials) {
  const std::int64_t part = global_warp();
  if (part >= parts) return;
  double loss = 0;
  for (std::int64_t r = part; r < logits.rows; r += parts) {
    if (mask[r] == 0) {
      clear_row(d.row(r), logits.cols);
    } else {
      loss += binary_row(logits.row(r), indicators + r * logits.cols, logits.cols, scale, d.row(r));
    }
  }
  if (lane() == 0) partials[part] = loss;
}

}  // namespace

std::int64_t loss_partials(std::int64_t rows) { return sum_parts(rows); }

void softmax_cross_entropy(Queue& queue, ConstMatrixView logits, const std::int32_t* target,
                           float scale, MatrixView d, double* partials, double* sum) {
  const std::int64_t parts = sum_parts(queue, logits.rows);
  launch(queue, "softmax loss", softmax_kernel, cover_by_warps(parts), logits, target, scale, d,
         parts, partials);
  add_partials(queue, partials, parts, sum);
}

void binary_cross_entropy(Queue& queue, ConstMatrixView logits, const std::uint8_t* indicators,
                          const std::uint8_t* mask, float scale, MatrixView d, double* partials,
                          double* sum) {
  const std::int64_t parts = sum_parts(queue, logits.rows);
  launch(queue, "binary loss", binary_kernel, cover_by_warps(parts), logits, indicators, mask,
         scale, d, parts, partials);
  add_partials(queue, partials, parts, sum);
}

}  // namespace heliograph::cuda
