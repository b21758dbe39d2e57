#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/codec.hpp"

// Encoding of a range of rows: the part of a CPU codec with a scalar and a SIMD definition.

namespace heliograph {

/// The arguments of Codec::encode. Indices are positions in the message.
struct EncodeJob {
  ConstMatrixView x;
  RowSelection selection;
  std::uint64_t stream = 0;
  std::byte* out = nullptr;
  RowFormat format;
  std::size_t row_bytes = 0;  ///< format.row_bytes(x.cols)

  std::int32_t source_row(std::int64_t index) const {
    return selection.rows[static_cast<std::size_t>(index)];
  }
  float scale(std::int64_t index) const {
    return selection.row_scale == nullptr ? 1.0F : selection.row_scale[source_row(index)];
  }
  std::uint64_t key(std::int64_t index) const {
    return row_key(stream, static_cast<std::uint64_t>(selection.global_ids[source_row(index)]));
  }
  /// The format whose codes the row uses: that of the layout, or one of fewer bits.
  RowFormat levels(std::int64_t index) const {
    RowFormat levels = format;
    if (selection.bits != nullptr) levels.bits = selection.bits[source_row(index)];
    return levels;
  }
  std::byte* out_row(std::int64_t index) const {
    const std::int64_t row = selection.positions == nullptr ? index : selection.positions[index];
    return out + static_cast<std::size_t>(row) * row_bytes;
  }
};

/// Encodes message rows [begin, end) by scalar code. Returns the first row that cannot be encoded,
/// or `end`; that row may be written in part. Writes nothing outside the encoded rows.
std::int64_t encode_rows_reference(const EncodeJob& job, std::int64_t begin, std::int64_t end);
/// encode_rows_reference in SIMD code, with the same bytes.
std::int64_t encode_rows_simd(const EncodeJob& job, std::int64_t begin, std::int64_t end);

/// Copies the exact columns of message rows [begin, end). Returns the first row with NaN or Inf in
/// them, or `end`.
std::int64_t copy_exact_columns(const EncodeJob& job, std::int64_t begin, std::int64_t end);

/// The column and value that keep message row `index` from being encoded.
UnencodableRow describe_unencodable(const EncodeJob& job, std::int64_t index);

}  // namespace heliograph
