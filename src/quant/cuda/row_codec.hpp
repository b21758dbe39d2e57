#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/cuda/runtime.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"

// Encoding and decoding of rows that lie on a device: the bytes of row_codec_reference.cpp.

namespace heliograph::cuda {

/// What Codec::encode was given; everything lies on the device.
struct EncodeTask {
  ConstMatrixView x;
  const std::int32_t* rows = nullptr;
  std::int64_t count = 0;  ///< Rows to encode, less than kNoRow.
  const float* row_scale = nullptr;
  const std::int64_t* global_ids = nullptr;
  const std::int32_t* positions = nullptr;
  std::uint64_t stream = 0;
  ConstMatrixView exact;
  std::byte* out = nullptr;
  RowFormat format;
  /// 0 before; then the least i - kNoRow over the indices i of the rows that cannot be encoded.
  std::int32_t* failed = nullptr;
};
inline constexpr std::int32_t kNoRow = std::numeric_limits<std::int32_t>::max();

void encode_rows(Queue& queue, const EncodeTask& task);
/// The exact columns of the same rows.
void encode_exact(Queue& queue, const EncodeTask& task);

}  // namespace heliograph::cuda
