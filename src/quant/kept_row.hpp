#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/host_device.hpp"
#include "core/noise.hpp"
#include "core/packed_rows.hpp"

// One packed row and the columns and bits of its mask that travel: the definition of
// docs/wire_format.md, which every implementation must match bit for bit. Host and device compilers
// read this header.

namespace heliograph {

/// The masks of a list of packed rows, and where each row begins without its dropped columns. Does
/// not own its arrays.
struct ColumnMasks {
  const std::int64_t* nodes = nullptr;  ///< The node of each row, which keys its mask.
  std::int64_t cols = 0;
  RowFormat format;  ///< Of one group, without exact columns.
  /// The bits of each row's codes, which are the lowest of the format's; null if all travel.
  const std::uint8_t* row_bits = nullptr;
  /// For each row the codes of a row in which the largest code of the row's bits stands for a kept
  /// column and 0 for a dropped one, filled up with zeros to whole words. With 16 and 32 bits they
  /// are those of 8.
  std::uint64_t* masks = nullptr;
  /// Whether no column is dropped. Then `masks` are those of rows of 1, 2, 4 and 8 bits, up to the
  /// format's, and drawing sets offsets only.
  bool keeps_all = false;
  std::int64_t* offsets = nullptr;  ///< In bytes; one more than rows.

  HELIOGRAPH_HOST_DEVICE constexpr int mask_bits() const {
    return format.bits < 8 ? format.bits : 8;
  }
  /// Words of a row's mask.
  HELIOGRAPH_HOST_DEVICE constexpr std::int64_t words() const {
    return (cols * mask_bits() + 63) / 64;
  }
  /// The bits of a column that travel in a row.
  HELIOGRAPH_HOST_DEVICE int column_bits(std::int64_t row) const {
    return row_bits != nullptr ? row_bits[row] : mask_bits();
  }
  HELIOGRAPH_HOST_DEVICE std::uint64_t* mask(std::int64_t row) const {
    return masks + (keeps_all ? mask_index(column_bits(row)) : row) * words();
  }
  /// Which of `masks` rows of 1, 2, 4 or 8 bits have if all columns are kept.
  HELIOGRAPH_HOST_DEVICE static constexpr int mask_index(int bits) {
    return (bits > 1 ? 1 : 0) + (bits > 2 ? 1 : 0) + (bits > 4 ? 1 : 0);
  }
  /// How many masks `rows` rows have.
  HELIOGRAPH_HOST_DEVICE constexpr std::int64_t mask_count(std::int64_t rows) const {
    return keeps_all ? 1 + mask_index(mask_bits()) : rows;
  }
  HELIOGRAPH_HOST_DEVICE std::uint64_t key(std::uint64_t stream, std::int64_t row) const {
    return row_key(stream, static_cast<std::uint64_t>(nodes[row]));
  }
  /// The bytes of a row with `bits` bits of its mask set, without dropped columns.
  HELIOGRAPH_HOST_DEVICE constexpr std::int64_t bytes_of(std::int64_t bits) const {
    return static_cast<std::int64_t>(format.parameter_bytes()) +
           (bits * (format.bits / mask_bits()) + 7) / 8;
  }
};

HELIOGRAPH_HOST_DEVICE inline int count_bits(std::uint64_t x) {
  x -= x >> 1 & 0x5555555555555555ULL;
  x = (x & 0x3333333333333333ULL) + (x >> 2 & 0x3333333333333333ULL);
  x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
  return static_cast<int>(x * 0x0101010101010101ULL >> 56);
}

/// Moves bits one by one; a CPU may have instructions for it.
struct MoveBits {
  /// The bits of x where `mask` is set, moved to the lowest bits.
  HELIOGRAPH_HOST_DEVICE static std::uint64_t gather(std::uint64_t x, std::uint64_t mask) {
    std::uint64_t gathered = 0;
    for (std::uint64_t to = 1; mask != 0; mask &= mask - 1, to <<= 1) {
      if ((x & mask & (~mask + 1)) != 0) gathered |= to;
    }
    return gathered;
  }
  /// The lowest bits of x, moved to where `mask` is set.
  HELIOGRAPH_HOST_DEVICE static std::uint64_t scatter(std::uint64_t x, std::uint64_t mask) {
    std::uint64_t scattered = 0;
    for (; mask != 0; mask &= mask - 1, x >>= 1) {
      if ((x & 1U) != 0) scattered |= mask & (~mask + 1);
    }
    return scattered;
  }
};

/// Draws the mask of a row, and sets offsets[row + 1] to the row's bytes.
HELIOGRAPH_HOST_DEVICE inline void draw_row(const ColumnMasks& m, std::uint32_t threshold,
                                            std::uint64_t stream, std::int64_t row) {
  if (m.keeps_all) {
    m.offsets[row + 1] = m.bytes_of(m.cols * m.column_bits(row));
    return;
  }
  std::uint64_t* mask = m.mask(row);
  for (std::int64_t w = 0; w < m.words(); ++w) mask[w] = 0;
  const std::uint64_t key = m.key(stream, row), ones = (1ULL << m.column_bits(row)) - 1;
  std::int64_t kept = 0;
  for (std::int64_t c = 0; c < m.cols; ++c) {
    if (noise16(key, static_cast<std::uint32_t>(c)) < threshold) continue;
    const std::int64_t bit = code_bit(m.mask_bits(), m.cols, c);
    mask[bit / 64] |= ones << (bit % 64);
    kept += m.column_bits(row);
  }
  m.offsets[row + 1] = m.bytes_of(kept);
}

/// Whether a mask of 8 bits a column keeps column c.
HELIOGRAPH_HOST_DEVICE inline bool keeps(const std::uint64_t* mask, std::int64_t c) {
  return (mask[c / 8] >> (c % 8 * 8) & 1U) != 0;
}

/// compress_row for values of kBytes. Which columns are kept is random, so no branch depends on it.
template <std::size_t kBytes>
HELIOGRAPH_HOST_DEVICE inline void compress_values(const std::uint64_t* mask, std::int64_t cols,
                                                   const std::byte* from, std::byte* to) {
  constexpr std::int64_t kPiece = 64;
  std::byte kept[(kPiece + 1) * kBytes];  // Also holds a dropped value behind the kept ones.
  for (std::int64_t first = 0; first < cols; first += kPiece) {
    std::size_t bytes = 0;
    for (std::int64_t c = first; c < cols && c < first + kPiece; ++c) {
      std::memcpy(kept + bytes, from + static_cast<std::size_t>(c) * kBytes, kBytes);
      bytes += keeps(mask, c) ? kBytes : 0;
    }
    std::memcpy(to, kept, bytes);
    to += bytes;
  }
}

/// expand_row for values of kBytes.
template <std::size_t kBytes>
HELIOGRAPH_HOST_DEVICE inline void expand_values(const std::uint64_t* mask, std::int64_t cols,
                                                 const std::byte* from, std::byte* to) {
  for (std::int64_t c = 0; c < cols; ++c, to += kBytes) {
    std::uint32_t value = 0;
    std::memcpy(&value, from, kBytes);
    if (!keeps(mask, c)) value = 0;
    std::memcpy(to, &value, kBytes);
    from += keeps(mask, c) ? kBytes : 0;
  }
}

/// Copies the parameters and the kept columns of packed row `from`.
template <class Bits = MoveBits>
HELIOGRAPH_HOST_DEVICE inline void compress_row(const ColumnMasks& m, std::int64_t row,
                                                const std::byte* from, std::byte* to) {
  const std::uint64_t* mask = m.mask(row);
  if (m.format.bits == 32) return compress_values<4>(mask, m.cols, from, to);
  if (m.format.bits == 16) return compress_values<2>(mask, m.cols, from, to);
  const std::size_t parameters = m.format.parameter_bytes();
  std::memcpy(to, from, parameters);
  from += parameters;
  to += parameters;
  std::uint64_t pending = 0;  // The last `count` bits, which fill no word yet.
  int count = 0;
  for (std::int64_t w = 0; w < m.words(); ++w) {
    std::uint64_t codes = 0;
    std::memcpy(&codes, from + 8 * w, 8);
    const std::uint64_t bits = Bits::gather(codes, mask[w]);
    pending |= bits << count;
    const int before = count;
    count += count_bits(mask[w]);
    if (count < 64) continue;
    std::memcpy(to, &pending, 8);
    to += 8;
    count -= 64;
    pending = before == 0 ? 0 : bits >> (64 - before);
  }
  std::memcpy(to, &pending, static_cast<std::size_t>((count + 7) / 8));
}

/// The inverse of compress_row: makes a packed row of `row_bytes` bytes in which dropped columns
/// have code 0 or value 0. Reads up to 8 bytes past the end of `from`.
template <class Bits = MoveBits>
HELIOGRAPH_HOST_DEVICE inline void expand_row(const ColumnMasks& m, std::int64_t row,
                                              const std::byte* from, std::byte* to) {
  const std::uint64_t* mask = m.mask(row);
  if (m.format.bits == 32) return expand_values<4>(mask, m.cols, from, to);
  if (m.format.bits == 16) return expand_values<2>(mask, m.cols, from, to);
  const std::size_t parameters = m.format.parameter_bytes();
  std::memcpy(to, from, parameters);
  from += parameters;
  to += parameters;
  std::size_t left = m.format.row_bytes(m.cols) - parameters;
  int at = 0;  // The first bit of `from` that is not used yet.
  for (std::int64_t w = 0; w < m.words(); ++w) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, from + at / 8, 8);
    if (at % 8 != 0) {
      bits = bits >> (at % 8) | std::to_integer<std::uint64_t>(from[at / 8 + 8]) << (64 - at % 8);
    }
    const std::uint64_t codes = Bits::scatter(bits, mask[w]);
    at += count_bits(mask[w]);
    const std::size_t bytes = left < 8 ? left : 8;
    std::memcpy(to, &codes, bytes);
    to += bytes;
    left -= bytes;
  }
}

}  // namespace heliograph
