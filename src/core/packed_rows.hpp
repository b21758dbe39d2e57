#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/host_device.hpp"

// The layout of encoded rows, as they travel and as they are aggregated (docs/wire_format.md).
// Host and device compilers read this header.

namespace heliograph {

/// How a row is encoded. Bits 1, 2, 4, 8: unsigned codes between a row minimum and minimum +
/// (2^bits - 1) * step. 16: bf16. 32: fp32, verbatim.
struct RowFormat {
  int bits = 32;
  /// Codes only: false leaves the minimum out; it is 0 (rows that are never negative).
  bool has_minimum = true;
  /// fp32 columns that lie behind a row's values, verbatim; decoding and sums leave them out.
  int exact_cols = 0;

  HELIOGRAPH_HOST_DEVICE constexpr bool is_codes() const { return bits <= 8; }
  /// Bytes of the row's parameters, which come first: minimum (bf16), then step.
  HELIOGRAPH_HOST_DEVICE constexpr std::size_t parameter_bytes() const {
    return is_codes() ? (has_minimum ? 4 : 2) : 0;
  }
  /// Where the exact columns begin in a row of `cols` encoded ones; not aligned.
  HELIOGRAPH_HOST_DEVICE constexpr std::size_t exact_begin(std::int64_t cols) const {
    return parameter_bytes() +
           (static_cast<std::size_t>(cols) * static_cast<std::size_t>(bits) + 7) / 8;
  }
  /// Bytes of one encoded row. Rows follow each other without padding.
  HELIOGRAPH_HOST_DEVICE constexpr std::size_t row_bytes(std::int64_t cols) const {
    return exact_begin(cols) + 4 * static_cast<std::size_t>(exact_cols);
  }
  bool operator==(const RowFormat&) const = default;
};

/// Encoded rows of one block of columns; row r starts at data + r * format.row_bytes(cols).
/// Does not own its memory, which has at least 64 readable bytes past the last row.
struct PackedRows {
  const std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t col_begin = 0;  ///< First column, in the matrix that is aggregated into.
  RowFormat format;

  HELIOGRAPH_HOST_DEVICE const std::byte* row(std::int64_t r) const {
    return data + static_cast<std::size_t>(r) * format.row_bytes(cols);
  }
  /// Exact column c of row r.
  HELIOGRAPH_HOST_DEVICE float exact(std::int64_t r, std::int64_t c) const {
    float value = 0;
    std::memcpy(&value, row(r) + format.exact_begin(cols) + 4 * c, 4);
    return value;
  }
};

/// bf16: the upper half of an fp32.
HELIOGRAPH_HOST_DEVICE inline float bf16_to_float(std::uint16_t b) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16);
}

/// The bf16 nearest to x, ties to even; infinity from halfway above the largest on, NaN stays NaN.
HELIOGRAPH_HOST_DEVICE inline std::uint16_t nearest_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (x != x) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// Step: an fp32 without its sign (it is never negative) and with 8 mantissa bits.
HELIOGRAPH_HOST_DEVICE inline float step_to_float(std::uint16_t s) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(s) << 15);
}

/// Minimum and step of an encoded row of codes.
struct RowParameters {
  float minimum;
  float step;
};

HELIOGRAPH_HOST_DEVICE inline RowParameters read_parameters(const std::byte* row,
                                                            RowFormat format) {
  std::uint16_t half[2] = {0, 0};
  if (format.has_minimum) {
    std::memcpy(half, row, 4);
    return {bf16_to_float(half[0]), step_to_float(half[1])};
  }
  std::memcpy(half, row, 2);
  return {0.0F, step_to_float(half[0])};
}

/// Vectors of 16 columns in a block of codes: the most that let a lane of 32 bits hold one code
/// of each (16 at most), halved until `columns_left` fill them; 0 where they fill not even lanes of
/// 8 bits, and at 8 bits, where a code is a byte.
HELIOGRAPH_HOST_DEVICE constexpr int code_block_vectors(int bits, std::int64_t columns_left) {
  if (bits >= 8) return 0;
  int vectors = bits == 1 ? 16 : 32 / bits;
  while (vectors * bits >= 8 && 16 * vectors > columns_left) vectors /= 2;
  return vectors * bits >= 8 ? vectors : 0;
}

/// First bit of the code of column c in a row of `cols` columns, counted from the first byte
/// behind the parameters, least significant bit first. Codes come in blocks of 16 V columns: 16
/// lanes of V codes, lane l with those of columns l, 16 + l, 32 + l, ... of the block. Columns
/// that fill no block follow in order.
HELIOGRAPH_HOST_DEVICE constexpr std::int64_t code_bit(int bits, std::int64_t cols,
                                                       std::int64_t c) {
  const std::int64_t most = 16 * code_block_vectors(bits, 256);
  std::int64_t first = most == 0 ? 0 : c / most * most;
  while (true) {
    const int vectors = code_block_vectors(bits, cols - first);
    if (vectors == 0) return c * bits;
    if (c < first + 16 * vectors) {
      const std::int64_t vector = (c - first) / 16;
      const std::int64_t lane = (c - first) % 16;
      return (first + lane * vectors + vector) * bits;
    }
    first += 16 * vectors;
  }
}

/// Code of column c of a row of `cols` columns; `codes` points behind the parameters.
HELIOGRAPH_HOST_DEVICE inline std::uint32_t read_code(const std::byte* codes, int bits,
                                                      std::int64_t cols, std::int64_t c) {
  const auto bit = static_cast<std::size_t>(code_bit(bits, cols, c));
  const auto byte = std::to_integer<std::uint32_t>(codes[bit / 8]);
  return (byte >> (bit % 8)) & ((1U << bits) - 1U);
}

/// Value of column c of an encoded row of `cols` columns.
HELIOGRAPH_HOST_DEVICE inline float decode_value(const std::byte* row, RowFormat format,
                                                 std::int64_t cols, std::int64_t c) {
  if (format.bits == 32) {
    float value = 0;
    std::memcpy(&value, row + 4 * c, 4);
    return value;
  }
  if (format.bits == 16) {
    std::uint16_t half = 0;
    std::memcpy(&half, row + 2 * c, 2);
    return bf16_to_float(half);
  }
  const RowParameters p = read_parameters(row, format);
  return p.minimum +
         static_cast<float>(read_code(row + format.parameter_bytes(), format.bits, cols, c)) *
             p.step;
}

}  // namespace heliograph
