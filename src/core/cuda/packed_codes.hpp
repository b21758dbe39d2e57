#pragma once

#include <bit>
#include <cstdint>

#include "core/cuda/wide.hpp"
#include "core/packed_rows.hpp"

// How lanes read the codes of packed rows: in chunks of up to 256 columns, of which each lane reads
// the codes of eight columns.

#if defined(__CUDACC__)

namespace heliograph::cuda {

inline constexpr int kLaneCodes = 8;               ///< Columns that one lane sums.
inline constexpr int kChunk = kLaneCodes * kWarp;  ///< Columns that a warp sums at most.

/// The words that hold the codes of one lane, of `kLanes` that share a chunk. Below 8 bits two
/// lanes share a word and take its codes in turn; they are half of kLanes apart, so that
/// neighbouring lanes have neighbouring columns.
template <int kBits, int kLanes>
struct CodeWords {
  static constexpr int kBytes = kBits == 1 ? 2 : 4;
  static constexpr int kSharers = kBits == 8 ? 1 : 2;
  static constexpr int kCodes = 8 * kBytes / kBits / kSharers;  ///< Codes of a word for one lane.
  static constexpr int kWords = kLaneCodes / kCodes;
  static constexpr int kBetween = kSharers * kBits;  ///< Bits between two codes of a lane.

  static constexpr int kApart = kLanes / kSharers;

  /// First byte of a word, counted from the start of the chunk.
  __device__ static int byte(int lane, int word) {
    return (word * kApart + lane % kApart) * kBytes;
  }
  /// Position of code `i` of a word among the codes of the chunk.
  __device__ static int position(int lane, int word, int i) {
    return byte(lane, word) * 8 / kBits + lane / kApart + i * kSharers;
  }
  /// First bit of the lane's codes in its words.
  __device__ static int bit(int lane) { return lane / kApart * kBits; }
};

/// The block of codes (packed_rows.hpp) that a position among the codes of a row lies in, or the
/// columns after the last block, as a block of one vector.
struct CodeBlock {
  std::int64_t begin;  ///< First position and first column.
  int log_vectors = 0;

  __device__ CodeBlock(int bits, std::int64_t cols, std::int64_t position) {
    const std::int64_t most = 16 * code_block_vectors(bits, 256);
    begin = most == 0 ? 0 : position / most * most;
    while (true) {
      const int vectors = code_block_vectors(bits, cols - begin);
      if (vectors == 0) return;
      if (position < begin + 16 * vectors) {
        log_vectors = std::bit_width(static_cast<unsigned>(vectors)) - 1;
        return;
      }
      begin += 16 * vectors;
    }
  }
  /// Column of the code at a position in this block, the inverse of code_bit().
  __device__ std::int64_t column(std::int64_t position) const {
    const std::int64_t at = position - begin;
    return begin + (at & ((1 << log_vectors) - 1)) * 16 + (at >> log_vectors);
  }
};

/// Byte `i` of `bytes` as a float, by way of the low mantissa bits of 2^23: cheaper than to
/// convert.
__device__ inline float byte_to_float(std::uint32_t bytes, int i) {
  const std::uint32_t number =
      permute_bytes(bytes, 0x4b000000U, 0x7440U | static_cast<unsigned>(i));
  return std::bit_cast<float>(number) - 8388608.0F;
}

/// Adds step x code for the codes of one word; the lane's first code begins at bit `first`. With 1
/// or 2 bits, each set bit adds its own term, since whole bytes become predicates at once.
template <class Words, int kBits>
__device__ void add_codes(std::uint32_t word, int first, float step, float* sum) {
  if constexpr (kBits <= 2) {
    // Codes begin at bit 8 if possible: compilers treat bit 0 as a number instead of a predicate.
    constexpr int kFrom = Words::kBytes < 4 ? 8 : 0;
    word = kFrom > 0 ? word << (kFrom - first) : word >> first;
#pragma unroll
    for (int i = 0; i < Words::kCodes; ++i) {
      const int bit = kFrom + i * Words::kBetween;
      if ((word & (1U << bit)) != 0) sum[i] += step;
      if (kBits == 2 && (word & (2U << bit)) != 0) sum[i] += step + step;
    }
  } else {
    word >>= first;
    // One mask moves all codes that are whole bytes apart into bytes of their own.
    constexpr std::uint32_t kEachByte = 0x01010101U * ((1U << kBits) - 1U);
#pragma unroll
    for (int i = 0; i < Words::kCodes; ++i) {
      const int bit = i * Words::kBetween;
      sum[i] = fmaf(byte_to_float((word >> (bit % 8)) & kEachByte, bit / 8), step, sum[i]);
    }
  }
}

}  // namespace heliograph::cuda

#endif
