#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/host_device.hpp"

// The layout of encoded rows in messages and in aggregation (docs/wire_format.md). Host and device
// compilers read this header.

namespace heliograph {

/// How a row is encoded. With 1, 2, 4 or 8 bits, each value is an unsigned code q that stands for
/// minimum + q * step, with parameters of its row; with 16 bits it is bf16, with 32 fp32.
struct RowFormat {
  int bits = 32;
  /// For codes: whether the minimum is stored. Without it, it is 0: no value is negative.
  bool has_minimum = true;
  /// fp32 columns that follow the encoded ones; decoding and sums ignore them.
  int exact_cols = 0;
  /// The equal groups of neighbouring columns, such as attention heads, that the encoded columns
  /// form; it divides their number. With codes, each group has parameters of its own and the layout
  /// of a row of its columns. bf16 and fp32 rows are the same with any number of groups.
  int groups = 1;

  /// Whether values are codes with a step, rather than bf16 or fp32.
  HELIOGRAPH_HOST_DEVICE constexpr bool is_codes() const { return bits <= 8; }
  /// The groups that have parameters and noise of their own.
  HELIOGRAPH_HOST_DEVICE constexpr int coded_groups() const { return is_codes() ? groups : 1; }
  /// Bytes of the parameters at the start of a group: the minimum in bf16, if any, then the step.
  HELIOGRAPH_HOST_DEVICE constexpr std::size_t parameter_bytes() const {
    return is_codes() ? (has_minimum ? 4 : 2) : 0;
  }
  /// Bytes of one group in a row of `cols` encoded columns. Groups follow each other without
  /// padding.
  HELIOGRAPH_HOST_DEVICE constexpr std::size_t group_bytes(std::int64_t cols) const {
    const auto group_cols = static_cast<std::size_t>(groups == 1 ? cols : cols / groups);
    return parameter_bytes() + (group_cols * static_cast<std::size_t>(bits) + 7) / 8;
  }
  /// Offset in bytes, not aligned, of the exact columns in a row of `cols` encoded columns.
  HELIOGRAPH_HOST_DEVICE constexpr std::size_t exact_begin(std::int64_t cols) const {
    return static_cast<std::size_t>(groups) * group_bytes(cols);
  }
  /// Bytes of a row of `cols` encoded columns. Rows follow each other without padding.
  HELIOGRAPH_HOST_DEVICE constexpr std::size_t row_bytes(std::int64_t cols) const {
    return exact_begin(cols) + 4 * static_cast<std::size_t>(exact_cols);
  }
  bool operator==(const RowFormat&) const = default;
};

/// Encoded rows of a block of columns, or one group of them. Does not own its memory, which must be
/// readable for 64 bytes past the last row.
struct PackedRows {
  const std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t col_begin = 0;  ///< First column of the block in the matrix that takes the sums.
  RowFormat format;
  std::size_t stride = 0;  ///< Bytes from one row to the next.

  PackedRows() = default;
  /// Whole rows, which follow each other without padding.
  HELIOGRAPH_HOST_DEVICE PackedRows(const std::byte* data_, std::int64_t rows_, std::int64_t cols_,
                                    std::int64_t col_begin_, RowFormat format_)
      : data(data_),
        rows(rows_),
        cols(cols_),
        col_begin(col_begin_),
        format(format_),
        stride(format_.row_bytes(cols_)) {}

  HELIOGRAPH_HOST_DEVICE const std::byte* row(std::int64_t r) const {
    return data + static_cast<std::size_t>(r) * stride;
  }
  /// The columns of group g as rows of a single group, without the exact columns.
  HELIOGRAPH_HOST_DEVICE PackedRows group(int g) const {
    PackedRows view = *this;
    view.data += static_cast<std::size_t>(g) * format.group_bytes(cols);
    view.cols = cols / format.groups;
    view.col_begin += g * view.cols;
    view.format.groups = 1;
    view.format.exact_cols = 0;
    return view;
  }
  /// Value of exact column c of row r.
  HELIOGRAPH_HOST_DEVICE float exact(std::int64_t r, std::int64_t c) const {
    float value = 0;
    std::memcpy(&value, row(r) + format.exact_begin(cols) + 4 * c, 4);
    return value;
  }
};

/// Encoded rows that a rank has sent and kept. Does not own its arrays.
struct KeptRows {
  PackedRows packed;
  /// The inner node of each packed row; -1 for a node that an earlier packed row has.
  const std::int32_t* nodes = nullptr;
};

/// Value of a bf16, which is the upper half of an fp32.
HELIOGRAPH_HOST_DEVICE inline float bf16_to_float(std::uint16_t b) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16);
}

/// The bf16 nearest to x, ties to even. Overflow gives infinity; NaN stays NaN.
HELIOGRAPH_HOST_DEVICE inline std::uint16_t nearest_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (x != x) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// Value of a stored step: a nonnegative fp32 without its sign bit, with 8 mantissa bits.
HELIOGRAPH_HOST_DEVICE inline float step_to_float(std::uint16_t s) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(s) << 15);
}

/// Minimum and step of an encoded row of codes.
struct RowParameters {
  float minimum;
  float step;
};

/// Reads the parameters at `row`, the start of a group or of a row of one group.
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

/// Vectors of 16 columns in the next block of codes of a row with `columns_left`. At most 16, and
/// as many as have codes that fit a lane of 32 bits; halved until the columns fill the block. 0 if
/// they do not fill lanes of 8 bits, and for 8-bit codes.
HELIOGRAPH_HOST_DEVICE constexpr int code_block_vectors(int bits, std::int64_t columns_left) {
  if (bits >= 8) return 0;
  int vectors = bits == 1 ? 16 : 32 / bits;
  while (vectors * bits >= 8 && 16 * vectors > columns_left) vectors /= 2;
  return vectors * bits >= 8 ? vectors : 0;
}

/// Position of the code of column c in a row of `cols` columns, in bits from the first byte after
/// the parameters, least significant bit first. A block of 16 V columns is 16 lanes of V codes;
/// lane l holds columns l, 16 + l, 32 + l, ... of the block. Columns that fill no block follow in
/// order.
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

/// Code of column c in a row of `cols` columns; `codes` points to the byte after the parameters.
HELIOGRAPH_HOST_DEVICE inline std::uint32_t read_code(const std::byte* codes, int bits,
                                                      std::int64_t cols, std::int64_t c) {
  const auto bit = static_cast<std::size_t>(code_bit(bits, cols, c));
  const auto byte = std::to_integer<std::uint32_t>(codes[bit / 8]);
  return (byte >> (bit % 8)) & ((1U << bits) - 1U);
}

/// Decoded value of column c of an encoded row of `cols` columns.
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
  if (format.groups > 1) {
    const std::int64_t group_cols = cols / format.groups;
    row += static_cast<std::size_t>(c / group_cols) * format.group_bytes(cols);
    cols = group_cols;
    c %= group_cols;
  }
  const RowParameters p = read_parameters(row, format);
  return p.minimum +
         static_cast<float>(read_code(row + format.parameter_bytes(), format.bits, cols, c)) *
             p.step;
}

}  // namespace heliograph
