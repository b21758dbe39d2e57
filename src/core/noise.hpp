#pragma once

#include <cstdint>

#include "core/host_device.hpp"

// Counter-based randomness. Every draw is a pure function of (seed, purpose, clock, place in the
// model, global node id, column), so results do not depend on ranks, threads or timing.
// This header is read by host and device compilers; the arithmetic here is the definition.

namespace heliograph {

/// Separates streams that share a seed.
enum class Purpose : std::uint32_t {
  rounding = 1,
  dropout = 2,
  initialisation = 3,
  generator = 4,
  split = 5
};

/// Where a run stands: the time of exchanges, of their noise and of dropout.
struct Clock {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  ///< 0 in full-graph training.
};

/// Owners send to halos (features, pull gradients): forward of the layer, or its backward.
enum class Direction : std::uint8_t { forward = 0, backward = 1 };

/// Bijective 64-bit mixer (Stafford's variant 13 of the MurmurHash3 finaliser).
HELIOGRAPH_HOST_DEVICE constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return x;
}

/// Where in a model a draw is made: in the pass of a layer in one direction.
HELIOGRAPH_HOST_DEVICE constexpr std::uint64_t place_key(int layer, Direction direction) {
  return (static_cast<std::uint64_t>(direction) << 32) | static_cast<std::uint32_t>(layer);
}

/// Key of one pass over rows: everything but the node and the column. `place`: below 2^40.
HELIOGRAPH_HOST_DEVICE constexpr std::uint64_t stream_key(std::uint64_t seed, Purpose purpose,
                                                          Clock clock, std::uint64_t place) {
  std::uint64_t k = mix64(seed + 0x9e3779b97f4a7c15ULL);
  k = mix64(k ^ (static_cast<std::uint64_t>(clock.epoch) * 0xd1342543de82ef95ULL +
                 static_cast<std::uint64_t>(clock.batch) * 0xaef17502108ef2d9ULL + 1));
  return mix64(k ^ ((static_cast<std::uint64_t>(purpose) << 40) | place));
}

/// Key of one row of that pass.
HELIOGRAPH_HOST_DEVICE constexpr std::uint64_t row_key(std::uint64_t stream,
                                                       std::uint64_t global_node) {
  return mix64(stream ^ mix64(global_node + 0x9e3779b97f4a7c15ULL));
}

/// 32 random bits: word `index` of a row. Two multiplications, so that SIMD lanes can afford it.
HELIOGRAPH_HOST_DEVICE constexpr std::uint32_t noise_word(std::uint64_t key, std::uint32_t index) {
  std::uint32_t x = index * 0x9e3779b9U + static_cast<std::uint32_t>(key);
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= (x >> 15) ^ static_cast<std::uint32_t>(key >> 32);
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return x;
}

/// 16 random bits of column `col`. Columns come in groups of 32: word i of a group gives its low
/// half to column i and its high half to column i + 16 of the group.
HELIOGRAPH_HOST_DEVICE constexpr std::uint32_t noise16(std::uint64_t key, std::uint32_t col) {
  const std::uint32_t word = noise_word(key, (col >> 5) * 16 + (col & 15));
  return (col & 16) != 0 ? word >> 16 : word & 0xffffU;
}

}  // namespace heliograph
