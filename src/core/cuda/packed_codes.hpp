#pragma once

#include <bit>
#include <cstdint>
#include <utility>

#include "core/cuda/wide.hpp"

// How a warp reads the codes of packed rows: in chunks of 256 columns, of which each lane reads the
// words that hold the codes of its own columns.

#if defined(__CUDACC__)

namespace heliograph::cuda {

inline constexpr int kChunk = 256;                 ///< Columns that one warp sums.
inline constexpr int kBlockLanes = 16;             ///< Lanes of a block of codes (packed_rows.hpp).
inline constexpr int kLaneCodes = kChunk / kWarp;  ///< Columns of a chunk that one lane sums.

/// The word that each lane reads of one part of a chunk, and the columns in it. A part is a block
/// of codes of kVectors vectors or, with kVectors 0, the columns after the last block. With 8 bits,
/// a part is 128 columns, and a word is four neighbouring ones.
template <int kBits, int kVectors>
struct Part {
  static constexpr bool kBlock = kVectors > 0 && kBits < 8;
  static constexpr bool kBytes = kBits == 8;
  static constexpr int kWordBytes = kBlock ? kVectors * kBits / 8 : (kBytes ? 4 : 1);
  static constexpr int kCodes = kBlock ? kVectors / 2 : (kBytes ? 4 : 4 / kBits);
  static constexpr int kBetween = kBlock ? 2 * kBits : kBits;  // bits between two codes
  static constexpr int kColumns = kBlock ? 16 * kVectors : 128;

  /// First byte of the word of `lane`, counted from the start of the part.
  __device__ static int byte(int lane) {
    return kBlock ? kWordBytes * (lane % kBlockLanes) : (kBytes ? 4 * lane : lane / 2);
  }
  /// First bit of the codes of `lane` in its word.
  __device__ static int bit(int lane) {
    return kBlock ? lane / kBlockLanes * kBits : (kBytes ? 0 : lane % 2 * 4);
  }
  /// Column of code `i` of `lane`, counted from the first column of the part.
  __device__ static int column(int lane, int i) {
    return kBlock ? lane + kWarp * i : lane * kCodes + i;
  }
};

/// The parts of a chunk of 256 columns or, with kLast, of the fewer columns at the end of a row.
template <int kBits, bool kLast>
struct Chunk {
  static constexpr int kParts =
      kBits == 8 ? 2 : (kLast ? (kBits == 4 ? 4 : kBits + 1) : kBits / 4 + 1);
  static constexpr int kLargest = kBits == 4 || kLast ? 8 : 16;
  static constexpr int vectors(int part) {
    if (kBits == 8 || !kLast) return kLargest;
    return part == kParts - 1 ? 0 : kLargest >> part;
  }
  template <int part>
  using PartOf = Part<kBits, vectors(part)>;
};

template <int kCount, class Body>
__device__ void each(const Body& body) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (body(std::integral_constant<int, i>()), ...); }
  (std::make_integer_sequence<int, kCount>());
}

/// Byte `i` of `bytes` as a float, by way of the low mantissa bits of 2^23: cheaper than to
/// convert.
__device__ float byte_to_float(std::uint32_t bytes, int i) {
  const std::uint32_t number =
      permute_bytes(bytes, 0x4b000000U, 0x7440U | static_cast<unsigned>(i));
  return std::bit_cast<float>(number) - 8388608.0F;
}

/// Adds step x code for the codes of one word; the lane's first code begins at bit `first`. With 1
/// or 2 bits, each set bit adds its own term, since whole bytes become predicates at once.
template <class PartOf, int kBits>
__device__ void add_codes(std::uint32_t word, int first, float step, float* sum) {
  if constexpr (kBits <= 2) {
    // Codes begin at bit 8 if possible: compilers treat bit 0 as a number instead of a predicate.
    constexpr int kFrom = PartOf::kWordBytes < 4 ? 8 : 0;
    word = kFrom > 0 ? word << (kFrom - first) : word >> first;
#pragma unroll
    for (int i = 0; i < PartOf::kCodes; ++i) {
      const int bit = kFrom + i * PartOf::kBetween;
      if ((word & (1U << bit)) != 0) sum[i] += step;
      if (kBits == 2 && (word & (2U << bit)) != 0) sum[i] += step + step;
    }
  } else {
    word >>= first;
    // One mask moves all codes that are whole bytes apart into bytes of their own.
    constexpr std::uint32_t kEachByte = 0x01010101U * ((1U << kBits) - 1U);
#pragma unroll
    for (int i = 0; i < PartOf::kCodes; ++i) {
      const int bit = i * PartOf::kBetween;
      sum[i] = fmaf(byte_to_float((word >> (bit % 8)) & kEachByte, bit / 8), step, sum[i]);
    }
  }
}

}  // namespace heliograph::cuda

#endif
