#pragma once

#include <bit>
#include <cstdint>

#include "core/cuda/packed_codes.hpp"

// The columns of an attention head that each lane sums.

namespace heliograph::cuda {

inline constexpr int kAttendColumns = 8;  ///< Columns that a lane sums at once.

#if defined(__CUDACC__)

/// The columns of a head that one lane sums. With codes they are those of neighbouring codes, so
/// that the lane reads one word; else the lanes of the head take columns in turn.
template <int kBits, int kUnit>
struct LaneColumns {
  static constexpr bool kCodes = kBits <= 8;
  std::int64_t cols;
  std::int64_t first;  ///< Position of the lane's first column among codes, or its number.
  int step;

  __device__ LaneColumns(std::int64_t cols_, int chunk, int lane, int lanes)
      : cols(cols_),
        first(std::int64_t{chunk} * kAttendColumns * lanes +
              (kCodes ? lane * kAttendColumns : lane)),
        step(kCodes ? 1 : lanes) {}

  __device__ bool has(int i) const { return first + i * step < cols; }
  /// Column number i.
  __device__ std::int64_t column(int i) const {
    const std::int64_t position = first + i * step;
    if (!kCodes) return position;
    return CodeBlock(kBits, cols, position).column(position);
  }
  /// Adds weight x value of each column to sums[0], or to sums[1] for entries of the other sign;
  /// with codes, the values are the codes. `head` is where the head's values begin in a row.
  __device__ void add(const std::byte* head, float positive, float other,
                      float (&sums)[2][kAttendColumns]) const {
    std::uint32_t words[2] = {};
    if constexpr (kCodes) {
      if (!has(0)) return;
      const std::byte* from = head + first * kBits / 8;
      words[0] = load_bytes<(kBits < 4 ? kBits : 4), kUnit>(from);
      if (kBits == 8) words[1] = load_bytes<4, kUnit>(from + 4);
    }
#pragma unroll
    for (int i = 0; i < kAttendColumns; ++i) {
      float value = 0;
      if constexpr (kCodes) {
        // By way of the low mantissa bits of 2^23, which is cheaper than to convert.
        const std::uint32_t code =
            (words[i * kBits / 32] >> (i * kBits % 32)) & ((1U << kBits) - 1U);
        value = std::bit_cast<float>(0x4b000000U | code) - 8388608.0F;
      } else if (has(i)) {
        const std::uint32_t bits =
            load_bytes<kBits / 8, kUnit>(head + (first + i * step) * (kBits / 8));
        value = std::bit_cast<float>(kBits == 16 ? bits << 16 : bits);
      }
      sums[0][i] = fmaf(positive, value, sums[0][i]);
      sums[1][i] = fmaf(other, value, sums[1][i]);
    }
  }
};

#endif

}  // namespace heliograph::cuda
