#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

// The layout of encoded rows, as they travel and as they are aggregated (docs/wire_format.md).

namespace heliograph {

/// How a row is encoded. Bits 1, 2, 4, 8: unsigned codes between a row minimum and minimum +
/// (2^bits - 1) * step. 16: bf16. 32: fp32, verbatim.
struct RowFormat {
  int bits = 32;
  /// Codes only: false leaves the minimum out; it is 0 (rows that are never negative).
  bool has_minimum = true;

  constexpr bool is_codes() const { return bits <= 8; }
  /// Bytes of the row's parameters, which come first: minimum (bf16), then step.
  constexpr std::size_t parameter_bytes() const { return is_codes() ? (has_minimum ? 4 : 2) : 0; }
  /// Bytes of one encoded row. Rows follow each other without padding.
  constexpr std::size_t row_bytes(std::int64_t cols) const {
    return parameter_bytes() +
           (static_cast<std::size_t>(cols) * static_cast<std::size_t>(bits) + 7) / 8;
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

  const std::byte* row(std::int64_t r) const {
    return data + static_cast<std::size_t>(r) * format.row_bytes(cols);
  }
};

/// bf16: the upper half of an fp32.
inline float bf16_to_float(std::uint16_t b) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16);
}

/// Step: an fp32 without its sign (it is never negative) and with 8 mantissa bits.
inline float step_to_float(std::uint16_t s) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(s) << 15);
}

/// Minimum and step of an encoded row of codes.
struct RowParameters {
  float minimum;
  float step;
};

inline RowParameters read_parameters(const std::byte* row, RowFormat format) {
  std::uint16_t half[2] = {0, 0};
  if (format.has_minimum) {
    std::memcpy(half, row, 4);
    return {bf16_to_float(half[0]), step_to_float(half[1])};
  }
  std::memcpy(half, row, 2);
  return {0.0F, step_to_float(half[0])};
}

/// Code of column c; `codes` points behind the parameters. Column c sits in bits
/// [c * bits, (c + 1) * bits) of the row, least significant bit first.
inline std::uint32_t read_code(const std::byte* codes, int bits, std::int64_t c) {
  const auto bit = static_cast<std::size_t>(c) * static_cast<std::size_t>(bits);
  const auto byte = std::to_integer<std::uint32_t>(codes[bit / 8]);
  return (byte >> (bit % 8)) & ((1U << bits) - 1U);
}

/// Value of column c of an encoded row.
inline float decode_value(const std::byte* row, RowFormat format, std::int64_t c) {
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
         static_cast<float>(read_code(row + format.parameter_bytes(), format.bits, c)) * p.step;
}

}  // namespace heliograph
