#include "graph/io/normal_quantiles.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numbers>

namespace heliograph {
namespace {

constexpr float kThreshold = 1e-7F;  // Nearer to the ends than this is beyond them.

/// The number below which a standard normal variable is with the probability p: a rational
/// approximation with an error of 3e-3 (Abramowitz and Stegun, 26.2.22), which two steps of
/// Halley's method bring to fp64 precision.
double normal_quantile(double p) {
  if (p > 0.5) return -normal_quantile(1 - p);
  const double r = std::sqrt(-2 * std::log(p));
  double x = (2.30753 + 0.27061 * r) / (1 + 0.99229 * r + 0.04481 * r * r) - r;
  for (int step = 0; step < 2; ++step) {
    const double error = 0.5 * std::erfc(-x / std::numbers::sqrt2) - p;
    const double u = error * std::sqrt(2 * std::numbers::pi) * std::exp(0.5 * x * x);
    x -= u / (1 + 0.5 * x * u);
  }
  return x;
}

}  // namespace

std::vector<float> sorted_numbers(std::span<const float> column) {
  std::vector<float> sorted;
  sorted.reserve(column.size());
  std::ranges::copy_if(column, std::back_inserter(sorted), [](float x) { return !std::isnan(x); });
  std::ranges::sort(sorted);
  return sorted;
}

void fill_missing(std::span<float> column, std::span<const float> sorted) {
  if (sorted.size() == column.size()) return;
  float most = sorted[0];
  std::size_t often = 0;
  for (std::size_t i = 0, end = 0; i < sorted.size(); i = end) {
    while (end < sorted.size() && sorted[end] == sorted[i]) ++end;
    if (end - i > often) {
      often = end - i;
      most = sorted[i];
    }
  }
  std::ranges::replace_if(
      column, [](float x) { return std::isnan(x); }, most);
}

void to_normal_quantiles(std::span<float> column, std::span<const float> sorted) {
  const std::size_t count = std::min<std::size_t>(1000, column.size());
  // Ranks and positions round as NumPy's linspace and percentile do, since a position just below
  // that of the first of equal numbers would change the rank of all of them.
  const double step = 1.0 / static_cast<double>(std::max<std::size_t>(count - 1, 1));
  const auto rank = [&](std::size_t i) {
    return i + 1 == count && count > 1 ? 1.0 : static_cast<double>(i) * step;
  };
  std::vector<double> quantiles(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double at = rank(i) * 100 / 100 * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const float least = sorted[below];
    const float next = sorted[std::min(below + 1, sorted.size() - 1)];
    quantiles[i] = least + (at - static_cast<double>(below)) * (next - least);
  }
  const double furthest = -normal_quantile(kThreshold);
  for (float& x : column) {
    const auto [first, last] = std::equal_range(quantiles.begin(), quantiles.end(), x);
    const auto i = static_cast<std::size_t>(first - quantiles.begin());
    float p = 0;
    // In fp32, as there: a number far from 0 is not beyond an end that it equals.
    if (x - kThreshold < quantiles.front()) {
      p = 0;
    } else if (x + kThreshold > quantiles.back()) {
      p = 1;
    } else if (first != last) {
      p = static_cast<float>(0.5 *
                             (rank(i) + rank(i + static_cast<std::size_t>(last - first) - 1)));
    } else {
      const double part = (x - quantiles[i - 1]) / (quantiles[i] - quantiles[i - 1]);
      p = static_cast<float>(rank(i - 1) + part * (rank(i) - rank(i - 1)));
    }
    x = static_cast<float>(p <= 0   ? -furthest
                           : p >= 1 ? furthest
                                    : std::clamp(normal_quantile(p), -furthest, furthest));
  }
}

}  // namespace heliograph
