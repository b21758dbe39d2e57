#include "core/cpu/loss.hpp"

#include <algorithm>
#include <cmath>

namespace heliograph::cpu {

double softmax_cross_entropy_rows_fp64(ConstMatrixView logits, const ClassTargets& targets,
                                       float scale, MatrixView d, std::int64_t begin,
                                       std::int64_t end) {
  double loss = 0;
  const std::int64_t classes = logits.cols;
  const auto weight = [&](std::int64_t c) {
    return targets.weights == nullptr ? 1.0 : static_cast<double>(targets.weights[c]);
  };
  const double smoothing = targets.smoothing;
  const double spread = smoothing / static_cast<double>(classes);
  double spread_mass = 0;
  for (std::int64_t c = 0; c < classes; ++c) spread_mass += spread * weight(c);
  for (std::int64_t r = begin; r < end; ++r) {
    float* out = d.row(r);
    const std::int32_t target = targets.class_of[r];
    if (target < 0) {
      std::fill_n(out, classes, 0.0F);
      continue;
    }
    const float* z = logits.row(r);
    const double top = *std::max_element(z, z + classes);
    double sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      const double v = z[c];
      sum += std::exp(v - top) + v * 0.0;  // The product is NaN for -Inf, which exp would hide.
    }
    const double log_sum = top + std::log(sum);
    const double kept = (1.0 - smoothing) * weight(target);
    const double mass = kept + spread_mass;  // The sum of the row's target values.
    loss += kept * (log_sum - static_cast<double>(z[target]));
    for (std::int64_t c = 0; c < classes; ++c) {
      const double below = static_cast<double>(z[c]) - log_sum;
      const double spread_here = spread * weight(c);
      if (spread > 0) loss -= spread_here * below;
      const double wanted = (c == target ? kept : 0.0) + spread_here;
      out[c] = static_cast<float>((mass * std::exp(below) - wanted) * scale);
    }
  }
  return loss;
}

double binary_cross_entropy_rows_fp64(ConstMatrixView logits, const std::uint8_t* indicators,
                                      const std::uint8_t* mask, float scale, MatrixView d,
                                      std::int64_t begin, std::int64_t end) {
  double loss = 0;
  const std::int64_t classes = logits.cols;
  for (std::int64_t r = begin; r < end; ++r) {
    float* out = d.row(r);
    if (mask[r] == 0) {
      std::fill_n(out, classes, 0.0F);
      continue;
    }
    const float* z = logits.row(r);
    const std::uint8_t* y = indicators + r * classes;
    for (std::int64_t c = 0; c < classes; ++c) {
      // softplus(z) - y z; the exponent is never positive, so it cannot overflow.
      const double v = z[c];
      const double e = std::exp(-std::abs(v));
      loss += std::max(v, 0.0) - v * y[c] + std::log1p(e);
      const double sigmoid = v >= 0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
      out[c] = static_cast<float>((sigmoid - y[c]) * scale);
    }
  }
  return loss;
}

double squared_error_rows(ConstMatrixView values, const float* target, float scale, MatrixView d,
                          std::int64_t begin, std::int64_t end) {
  double loss = 0;
  for (std::int64_t r = begin; r < end; ++r) {
    d.row(r)[0] = 0;
    if (std::isnan(target[r])) continue;
    const double error = static_cast<double>(values.row(r)[0]) - static_cast<double>(target[r]);
    loss += error * error;
    d.row(r)[0] = static_cast<float>(2 * error * scale);
  }
  return loss;
}

}  // namespace heliograph::cpu
