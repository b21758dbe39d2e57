#pragma once

#include <cstdint>

#include "core/host_device.hpp"

// Counter-based randomness. Every draw is a pure function of (seed, purpose, clock, site key,
// global node id, column), so results do not depend on ranks, threads or timing. Host and device
// compilers read this header; its arithmetic is the definition.

namespace heliograph {

/// The purpose of a draw, which separates streams that share a seed.
enum class Purpose : std::uint32_t {
  rounding = 1,
  dropout = 2,
  initialisation = 3,
  generator = 4,
  split = 5,
  attention = 6,
  gradient_rounding = 7
};

/// The time in a run that keys exchanges, rounding noise and dropout.
struct Clock {
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  ///< 0 in full-graph training.
};

/// The pass to which an exchange belongs: forward sends features, backward sends gradients.
enum class Direction : std::uint8_t { forward = 0, backward = 1 };

/// Which elements of a value training drops (Srivastava et al., 2014): those whose noise16() with
/// Purpose::dropout, the mask's key as site key and the row's node is below the threshold.
struct DropoutMask {
  std::uint32_t threshold = 0;  ///< The probability of dropping an element, times 2^16.
  std::uint64_t key = 0;        ///< The mask's site key, different from every other mask's.
};

/// Bijective 64-bit mixer: the finaliser of SplitMix64 (Steele, Lea & Flood 2014) with Stafford's
/// constants (variant 13).
HELIOGRAPH_HOST_DEVICE constexpr std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return x;
}

/// Key of the draws that one layer makes in one direction.
HELIOGRAPH_HOST_DEVICE constexpr std::uint64_t site_key(int layer, Direction direction) {
  return (static_cast<std::uint64_t>(direction) << 32) | static_cast<std::uint32_t>(layer);
}

/// Key of all draws for one seed, purpose, clock and site key; the latter is below 2^40.
HELIOGRAPH_HOST_DEVICE constexpr std::uint64_t stream_key(std::uint64_t seed, Purpose purpose,
                                                          Clock clock, std::uint64_t site) {
  std::uint64_t k = mix64(seed + 0x9e3779b97f4a7c15ULL);
  k = mix64(k ^ (static_cast<std::uint64_t>(clock.epoch) * 0xd1342543de82ef95ULL +
                 static_cast<std::uint64_t>(clock.batch) * 0xaef17502108ef2d9ULL + 1));
  return mix64(k ^ ((static_cast<std::uint64_t>(purpose) << 40) | site));
}

/// Key of one node's row in the stream of a stream_key().
HELIOGRAPH_HOST_DEVICE constexpr std::uint64_t row_key(std::uint64_t stream,
                                                       std::uint64_t global_node) {
  return mix64(stream ^ mix64(global_node + 0x9e3779b97f4a7c15ULL));
}

/// Key of a row's columns in one group (core/packed_rows.hpp), from the row's row_key().
HELIOGRAPH_HOST_DEVICE constexpr std::uint64_t group_key(std::uint64_t row, int group) {
  if (group == 0) return row;
  return mix64(row + static_cast<std::uint64_t>(group) * 0x9e3779b97f4a7c15ULL);
}

/// 32 random bits: word `index` for the row_key() `key`. A keyed variant of lowbias32 (Wellons
/// 2018), whose two multiplications are cheap in SIMD lanes.
HELIOGRAPH_HOST_DEVICE constexpr std::uint32_t noise_word(std::uint64_t key, std::uint32_t index) {
  std::uint32_t x = index * 0x9e3779b9U + static_cast<std::uint32_t>(key);
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= (x >> 15) ^ static_cast<std::uint32_t>(key >> 32);
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return x;
}

/// 16 random bits for column `col` of the row with row_key() `key`. In each span of 32 columns,
/// the low half of word i serves column i and its high half column i + 16.
HELIOGRAPH_HOST_DEVICE constexpr std::uint32_t noise16(std::uint64_t key, std::uint32_t col) {
  const std::uint32_t word = noise_word(key, (col >> 5) * 16 + (col & 15));
  return (col & 16) != 0 ? word >> 16 : word & 0xffffU;
}

}  // namespace heliograph
