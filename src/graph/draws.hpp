#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>

#include "core/noise.hpp"

namespace heliograph {

/// What the generators draw. Each kind has a random stream of its own.
enum class Drawn : int {
  label = 1,
  weight = 2,
  edge = 3,
  mean = 4,
  feature = 5,
  role = 6,
  order = 7,
  partition = 8,
  label_noise = 9
};

constexpr std::uint64_t generator_stream(std::uint64_t seed, Drawn what) {
  return stream_key(seed, Purpose::generator, {}, static_cast<std::uint64_t>(what));
}

/// The random numbers of one item of a stream. The n-th draw is a pure function of (stream, item,
/// n).
class Draws {
 public:
  Draws(std::uint64_t stream, std::uint64_t item) : key_(row_key(stream, item)) {}

  std::uint64_t bits() { return mix64(key_ += 0x9e3779b97f4a7c15ULL); }

  /// A uniform number in [0, 1), a multiple of 2^-53.
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  /// A uniform integer in [0, bound), with a bias below bound x 2^-32.
  std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(((bits() >> 32) * bound) >> 32);
  }

  /// Two independent standard normal numbers (Box and Muller, 1958).
  std::pair<double, double> normals() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - unit()));
    const double angle = 2.0 * std::numbers::pi * unit();
    return {radius * std::cos(angle), radius * std::sin(angle)};
  }

 private:
  std::uint64_t key_;
};

}  // namespace heliograph
