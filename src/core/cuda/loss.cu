#include <cmath>

#include "core/cuda/kernel_calls.hpp"
#include "core/cuda/launch.hpp"
#include "core/cuda/row_columns.hpp"
#include "core/cuda/sums.hpp"

namespace heliograph::cuda {
namespace {

// Groups of kLanes lanes work on a row each. A row with up to kHeld x kLanes columns stays in
// registers; each lane of a wider one touches only its own columns in `out`. All lanes of a warp
// take part in the sums of a group, also those without a row, which have no columns.

struct Softmax {
  ClassTargets targets;

  __device__ bool counts(std::int64_t r) const { return targets.class_of[r] >= 0; }
  __device__ float weight(std::int64_t c) const {
    return targets.weights == nullptr ? 1.0F : targets.weights[c];
  }
  template <int kLanes, int kHeld>
  __device__ double loss(const float* z, std::int64_t classes, std::int64_t r, bool counted,
                         float scale, float* out) const {
    const std::int64_t cols = counted ? classes : 0;
    const LaneValues<kHeld, kLanes> logits(z, cols);
    const std::int32_t target = counted ? targets.class_of[r] : 0;
    const float chosen = counted ? z[target] : 0.0F;
    const float kept = (1.0F - targets.smoothing) * weight(target);
    const float spread = targets.smoothing / static_cast<float>(classes);
    float mass = kept;  // The sum of the row's target values.
    if (spread > 0.0F) {
      float total = 0;
      each_column<kHeld, kLanes>(cols, [&](int, std::int64_t c) { total += weight(c); });
      mass += spread * lanes_sum(total, kLanes);
    }
    float top = -HUGE_VALF;
    float poison = 0;  // NaN after NaN or Inf, which the maximum would hide from the loss
    each_column<kHeld, kLanes>(cols, [&](int i, std::int64_t c) {
      const float v = logits(i, c);
      top = v > top ? v : top;
      poison += v * 0.0F;
    });
    top = lanes_max(top, kLanes);
    float held[kHeld > 0 ? kHeld : 1] = {};
    float sum = 0;
    each_column<kHeld, kLanes>(cols, [&](int i, std::int64_t c) {
      const float e = std::exp(logits(i, c) - top);
      sum += e;
      (kHeld > 0 ? held[i] : out[c]) = e;
    });
    sum = lanes_sum(sum, kLanes);
    poison = lanes_sum(poison, kLanes);
    const float factor = mass * scale / sum;
    float behind = 0;
    each_column<kHeld, kLanes>(cols, [&](int i, std::int64_t c) {
      float d = (kHeld > 0 ? held[i] : out[c]) * factor - (c == target ? scale * kept : 0.0F);
      if (spread > 0.0F) {
        behind += weight(c) * (top - logits(i, c));
        d -= scale * spread * weight(c);
      }
      out[c] = d;
    });
    double loss =
        static_cast<double>(mass) * std::log(static_cast<double>(sum)) +
        static_cast<double>(kept) * (static_cast<double>(top) - static_cast<double>(chosen)) +
        static_cast<double>(poison);
    if (spread > 0.0F) {
      loss += static_cast<double>(spread) * static_cast<double>(lanes_sum(behind, kLanes));
    }
    return loss;
  }
};

struct Binary {
  const std::uint8_t* indicators;
  const std::uint8_t* mask;

  __device__ bool counts(std::int64_t r) const { return mask[r] != 0; }
  /// softplus(z) - y z; the exponent is never positive, so it cannot overflow.
  template <int kLanes, int kHeld>
  __device__ double loss(const float* z, std::int64_t classes, std::int64_t r, bool counted,
                         float scale, float* out) const {
    const std::int64_t cols = counted ? classes : 0;
    const LaneValues<kHeld, kLanes> logits(z, cols);
    const std::uint8_t* y = indicators + r * classes;
    std::uint8_t held[kHeld > 0 ? kHeld : 1] = {};
    if constexpr (kHeld > 0) {
      each_column<kHeld, kLanes>(cols, [&](int i, std::int64_t c) { held[i] = y[c]; });
    }
    float sum = 0;
    each_column<kHeld, kLanes>(cols, [&](int i, std::int64_t c) {
      const float v = logits(i, c);
      const auto label = static_cast<float>(kHeld > 0 ? held[i] : y[c]);
      const float e = std::exp(-std::abs(v));
      sum += (v > 0.0F ? v : 0.0F) - v * label + std::log1p(e);
      const float sigmoid = (v >= 0.0F ? 1.0F : e) / (1.0F + e);
      out[c] = (sigmoid - label) * scale;
    });
    return static_cast<double>(lanes_sum(sum, kLanes));
  }
};

struct Squared {
  const float* target;

  __device__ bool counts(std::int64_t r) const { return target[r] == target[r]; }  // not NaN
  template <int kLanes, int kHeld>
  __device__ double loss(const float* z, std::int64_t /*columns*/, std::int64_t r, bool counted,
                         float scale, float* out) const {
    if (!counted) return 0;
    const double error = static_cast<double>(z[0]) - static_cast<double>(target[r]);
    out[0] = static_cast<float>(2 * error * static_cast<double>(scale));
    return error * error;
  }
};

/// Warp w computes the rows w, w + parts, ... in the order of its groups, each of which takes every
/// so many of them, and the sum of their losses.
template <class Rows, int kLanes, int kHeld>
__global__ void __launch_bounds__(kSumThreads, kSumBlocks)
    loss_kernel(ConstMatrixView logits, Rows rows, float scale, MatrixView d, std::int64_t parts,
                double* partials) {
  const std::int64_t part = global_warp();
  if (part >= parts) return;
  double loss = 0;
  constexpr int kGroups = kWarp / kLanes;
  for (std::int64_t first = part; first < logits.rows; first += parts * kGroups) {
    const std::int64_t mine = first + lane() / kLanes * parts;
    const bool is_row = mine < logits.rows;
    const std::int64_t r = is_row ? mine : first;
    const bool counts = is_row && rows.counts(r);
    if (__ballot_sync(kWholeWarp, counts) != 0) {
      const double row_loss =
          rows.template loss<kLanes, kHeld>(logits.row(r), logits.cols, r, counts, scale, d.row(r));
      if (counts) loss += row_loss;
    }
    if (is_row && !counts) {
      each_column<kHeld, kLanes>(logits.cols, [&](int, std::int64_t c) { d.row(r)[c] = 0; });
    }
  }
  // The lanes of a group have the same sum; lanes that are kLanes apart are of different groups.
  for (int step = kLanes; step < kWarp; step *= 2) {
    loss += __shfl_xor_sync(kWholeWarp, loss, step);
  }
  if (lane() == 0) partials[part] = loss;
}

/// The kernel for rows of `cols` columns: a lane has one column before it has two, and eight before
/// more than eight lanes share a row.
template <class Rows>
auto kernel_for(std::int64_t cols) {
  if (cols <= 8) return loss_kernel<Rows, 8, 1>;
  if (cols <= 16) return loss_kernel<Rows, 8, 2>;
  if (cols <= 32) return loss_kernel<Rows, 8, 4>;
  if (cols <= 64) return loss_kernel<Rows, 8, kHeldColumns>;
  if (cols <= 128) return loss_kernel<Rows, 16, kHeldColumns>;
  if (cols <= kHeldRow) return loss_kernel<Rows, kWarp, kHeldColumns>;
  return loss_kernel<Rows, kWarp, 0>;
}

template <class Rows>
void sum_losses(Queue& queue, const char* name,
                void (*kernel)(ConstMatrixView, Rows, float, MatrixView, std::int64_t, double*),
                ConstMatrixView logits, const Rows& rows, float scale, MatrixView d,
                double* partials, double* sum) {
  const std::int64_t parts = sum_parts(queue, logits.rows);
  launch(queue, name, kernel, cover_by_warps(parts, kSumThreads), logits, rows, scale, d, parts,
         partials);
  add_partials(queue, partials, parts, sum);
}

}  // namespace

std::int64_t loss_partials(std::int64_t rows) { return sum_parts(rows); }

void softmax_cross_entropy(Queue& queue, ConstMatrixView logits, const ClassTargets& targets,
                           float scale, MatrixView d, double* partials, double* sum) {
  sum_losses(queue, "softmax loss", kernel_for<Softmax>(logits.cols), logits, Softmax{targets},
             scale, d, partials, sum);
}

void squared_error(Queue& queue, ConstMatrixView values, const float* target, float scale,
                   MatrixView d, double* partials, double* sum) {
  sum_losses(queue, "squared loss", loss_kernel<Squared, 1, 1>, values, Squared{target}, scale, d,
             partials, sum);
}

void binary_cross_entropy(Queue& queue, ConstMatrixView logits, const std::uint8_t* indicators,
                          const std::uint8_t* mask, float scale, MatrixView d, double* partials,
                          double* sum) {
  sum_losses(queue, "binary loss", kernel_for<Binary>(logits.cols), logits,
             Binary{indicators, mask}, scale, d, partials, sum);
}

}  // namespace heliograph::cuda
