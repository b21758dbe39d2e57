#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace heliograph::test {

/// The Euclidean norm of a - b divided by that of b. Both have the same size.
inline double relative_distance(std::span<const float> a, std::span<const float> b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

}  // namespace heliograph::test
