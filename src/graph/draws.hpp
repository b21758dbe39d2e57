#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>

#include "core/noise.hpp"

namespace heliograph {

/// Streams of the generator: one for each kind of thing that is drawn.
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

/// As many draws as wanted for one item of a stream: a pure function of (stream, item, position).
class Draws {
 public:
  Draws(std::uint64_t stream, std::uint64_t item) : key_(row_key(stream, item)) {}

  std::uint64_t bits() { return mix64(key_ += 0x9e3779b97f4a7c15ULL); }

  /// Uniform in [0, 1), a multiple of 2^-53.
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  /// Uniform in [0, bound), bound < 2^32; the bias is below bound x 2^-32.
  std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(((bits() >> 32) * bound) >> 32);
  }

  /// Two independent standard normal values (Box and Muller).
  std::pair<double, double> normals() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - unit()));
    const double angle = 2.0 * std::numbers::pi * unit();
    return {radius * std::cos(angle), radius * std::sin(angle)};
  }

 private:
  std::uint64_t key_;
};

}  // namespace heliograph
