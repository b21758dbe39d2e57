#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cuda/runtime.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"
#include "quant/codec.hpp"

// Encoding of rows on a CUDA device, with the bytes of row_codec_reference.cpp.

namespace heliograph::cuda {

/// The arguments of Codec::encode, with all pointers to device memory.
struct EncodeTask {
  ConstMatrixView x;
  const std::int32_t* rows = nullptr;
  std::int64_t count = 0;  ///< Number of rows to encode, less than kNoFailedRow.
  const float* row_scale = nullptr;
  const std::int64_t* global_ids = nullptr;
  const std::int32_t* positions = nullptr;
  const std::uint8_t* bits = nullptr;
  std::uint64_t stream = 0;
  ConstMatrixView exact;
  std::byte* out = nullptr;
  RowFormat format;
  std::size_t row_bytes = 0;  ///< Bytes from one row of `out` to the next.
  int group = 0;              ///< The group whose columns `x` has, if it has only one.
  /// 0, or first + i - kNoFailedRow for the first row i that cannot be encoded. The caller sets it
  /// to 0.
  std::int32_t* failed = nullptr;
  std::int64_t first = 0;
};

/// Encodes all groups of the rows of `task`, without their exact columns.
void encode_rows(Queue& queue, const EncodeTask& task);
/// Copies the exact columns of the rows of `task`.
void encode_exact(Queue& queue, const EncodeTask& task);

}  // namespace heliograph::cuda
