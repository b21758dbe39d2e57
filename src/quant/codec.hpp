#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/device.hpp"
#include "core/matrix.hpp"
#include "core/noise.hpp"
#include "core/packed_rows.hpp"

namespace heliograph {

/// The rows that one message carries.
struct RowSelection {
  std::span<const std::int32_t> rows;        ///< Rows of the source matrix, in message order.
  const float* row_scale = nullptr;          ///< By source row; null counts as 1.
  const std::int64_t* global_ids = nullptr;  ///< By source row: keys of the rounding noise.
  /// By selected row: which row of the output it becomes; null: they follow in order.
  const std::int32_t* positions = nullptr;
  /// Source rows x the format's exact columns, which no scale applies to; empty for none.
  ConstMatrixView exact = {};
};

/// A row that cannot be encoded: NaN, Inf, or a range beyond docs/wire_format.md.
struct UnencodableRow {
  std::int32_t row = -1;  ///< Source row; -1: none.
  std::int64_t col = -1;  ///< First offending column, exact ones last; -1: the range as a whole.
  float value = 0;
};

/// Turns fp32 rows into packed rows, which kernels sum as they are. Stateless: noise is a function
/// of the key. Thread-safe; work is spread over the pool that is passed.
class Codec {
 public:
  virtual ~Codec() = default;

  virtual RowFormat format() const = 0;

  std::size_t encoded_bytes(std::int64_t rows, std::int64_t cols) const {
    return static_cast<std::size_t>(rows) * format().row_bytes(cols);
  }

  /// Writes encoded_bytes(selection.rows.size(), x.cols) bytes to `out`: gathers, scales (rounded
  /// to fp32), finds the range and rounds stochastically in one pass over each row. Rows of the
  /// output that are not selected stay as they are. Exact columns are copied.
  /// Over noise keys, the expected value of decode_value (core/packed_rows.hpp) is x, up to the
  /// bias that docs/wire_format.md bounds. `stream` is a stream_key(); the row's global id
  /// completes it. When it returns, `out` may be sent; a CUDA device's codec works in the order of
  /// its queue, on what lies there. Returns the first row (in message order) that cannot be
  /// encoded, else row == -1. What `out` holds after a failure is not defined.
  virtual UnencodableRow encode(ConstMatrixView x, const RowSelection& selection,
                                std::uint64_t stream, std::byte* out,
                                ThreadPool& threads) const = 0;
};

/// Throws Error(usage) for bits other than 1, 2, 4, 8, 16 and 32.
std::unique_ptr<Codec> make_cpu_codec(RowFormat format);

/// The scalar definition that every codec must match bit for bit; for tests.
std::unique_ptr<Codec> make_reference_codec(RowFormat format);

/// In the order of the device's queue; the device must outlive it. Throws Error(usage) where there
/// is none, or the build has no CUDA.
std::unique_ptr<Codec> make_cuda_codec(RowFormat format, Device& device);

/// The codec for rows that lie on the device, which must outlive it.
std::unique_ptr<Codec> make_codec(RowFormat format, Device& device);

}  // namespace heliograph
