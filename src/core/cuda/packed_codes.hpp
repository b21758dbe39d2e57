#pragma once

#include <bit>
#include <cstdint>
#include <utility>

#include "core/cuda/wide.hpp"

// Codes of packed rows as a warp reads them: chunks of 256 columns, of which each lane reads words
// that hold the codes of all of its columns.

#if defined(__CUDACC__)

namespace heliograph::cuda {

/// Columns of one warp, and lanes of a block of codes (packed_rows.hpp).
inline constexpr int kChunk = 256;
inline constexpr int kBlockLanes = 16;
/// Columns of a chunk that one lane sums.
inline constexpr int kLaneCodes = kChunk / kWarp;

/// What one lane reads of a part of a chunk, in one word, and which columns it finds there.
/// kVectors: those of a block of codes; 0: the columns behind the last block, in order; at 8 bits
/// four neighbouring columns of 128.
template <int kBits, int kVectors>
struct Part {
  static constexpr bool kBlock = kVectors > 0 && kBits < 8;
  static constexpr bool kBytes = kBits == 8;
  static constexpr int kWordBytes = kBlock ? kVectors * kBits / 8 : (kBytes ? 4 : 1);
  static constexpr int kCodes = kBlock ? kVectors / 2 : (kBytes ? 4 : 4 / kBits);
  static constexpr int kBetween = kBlock ? 2 * kBits : kBits;  // bits from one code to the next
  static constexpr int kColumns = kBlock ? 16 * kVectors : 128;

  /// First byte and bit of the word of `lane`, from the begin of the part on.
  __device__ static int byte(int lane) {
    return kBlock ? kWordBytes * (lane % kBlockLanes) : (kBytes ? 4 * lane : lane / 2);
  }
  __device__ static int bit(int lane) {
    return kBlock ? lane / kBlockLanes * kBits : (kBytes ? 0 : lane % 2 * 4);
  }
  /// Column of code `i` of `lane`, from the begin of the part on.
  __device__ static int column(int lane, int i) {
    return kBlock ? lane + kWarp * i : lane * kCodes + i;
  }
};

/// The parts of a chunk: of 256 columns, or of the fewer that end a row.
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

/// Byte `i` of `bytes` as a number: the low digits of 2^23, less 2^23. Cheaper than a conversion.
__device__ float byte_to_float(std::uint32_t bytes, int i) {
  const std::uint32_t number =
      permute_bytes(bytes, 0x4b000000U, 0x7440U | static_cast<unsigned>(i));
  return std::bit_cast<float>(number) - 8388608.0F;
}

/// Adds step x code for the codes of one word, of which the lane's first begins at bit `first`. Up
/// to 2 bits each bit adds what it stands for: whole bytes of them become predicates at once.
template <class PartOf, int kBits>
__device__ void add_codes(std::uint32_t word, int first, float step, float* sum) {
  if constexpr (kBits <= 2) {
    // Not from bit 0 on, where there is room: compilers take that one for a number of its own.
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
    // Codes that stand a whole number of bytes apart are brought into bytes of their own together.
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
