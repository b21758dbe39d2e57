#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "core/device.hpp"
#include "core/matrix.hpp"
#include "core/noise.hpp"
#include "core/packed_rows.hpp"

namespace heliograph {

/// The rows that one message carries. Does not own its arrays.
struct RowSelection {
  std::span<const std::int32_t> rows;        ///< Rows of the source matrix, in message order.
  const float* row_scale = nullptr;          ///< Factor of each source row; null counts as 1.
  const std::int64_t* global_ids = nullptr;  ///< Node id of each source row, keys its noise.
  /// Output row of each selected row; null means message order.
  const std::int32_t* positions = nullptr;
  /// Source rows x exact columns of the format, which are not scaled; empty for none.
  ConstMatrixView exact = {};
  /// For a CUDA codec: page-locked memory in which it notes that a row cannot be encoded, instead
  /// of waiting for the device: the least first + i - kNoFailedRow of all such rows i in message
  /// order, or 0 as before. Valid once the device is done.
  std::int32_t* failed = nullptr;
  /// The bits of each source row, at most those of the format, in whose layout the row is: only
  /// codes below 2^bits are used. For formats of up to 8 bits, on CUDA devices up to 4; null: the
  /// bits of the format.
  const std::uint8_t* bits = nullptr;
  std::int64_t first = 0;  ///< How many rows of the exchange come before these.
};
inline constexpr std::int32_t kNoFailedRow = std::numeric_limits<std::int32_t>::max();

/// A row with NaN, Inf or a range that docs/wire_format.md excludes.
struct UnencodableRow {
  std::int32_t row = -1;  ///< Source row; -1 for no such row.
  /// First NaN or Inf, counting exact columns last; -1 for the range of the row or a group.
  std::int64_t col = -1;
  float value = 0;
};

/// Encodes fp32 rows as packed rows. Stateless, as noise is a function of keys. CPU codecs are
/// thread-safe; a CUDA codec is used by its device's thread.
class Codec {
 public:
  virtual ~Codec() = default;

  virtual RowFormat format() const = 0;

  std::size_t encoded_bytes(std::int64_t rows, std::int64_t cols) const {
    return static_cast<std::size_t>(rows) * format().row_bytes(cols);
  }

  /// Gathers the selected rows of x, scales them in fp32, encodes them with stochastic rounding and
  /// writes them to `out`, with their exact columns; other rows of `out` do not change. `out` has
  /// encoded_bytes(selection.rows.size(), x.cols) bytes and may be sent when the call returns.
  /// x.cols is a multiple of the format's groups.
  /// Over noise keys, the expected value of decode_value (core/packed_rows.hpp) is x up to a bias
  /// that docs/wire_format.md bounds. A row's key is made of `stream`, a stream_key(), and the
  /// row's global id. A CUDA codec works in the order of its queue, on device memory. Returns the
  /// first row in message order that cannot be encoded, or row == -1 (and that at once if a CUDA
  /// codec has `selection.failed`); `out` is undefined after a failure. CPU work is spread over
  /// `threads`.
  virtual UnencodableRow encode(ConstMatrixView x, const RowSelection& selection,
                                std::uint64_t stream, std::byte* out,
                                ThreadPool& threads) const = 0;
};

/// Throws Error(usage) for bits other than 1, 2, 4, 8, 16 and 32, and for less than 1 group.
std::unique_ptr<Codec> make_cpu_codec(RowFormat format);

/// A scalar codec for tests: the definition that every codec must match bit for bit.
std::unique_ptr<Codec> make_reference_codec(RowFormat format);

/// A codec that works in the order of the device's queue. The device must outlive it. Throws
/// Error(usage) if the device has no queue or the build has no CUDA.
std::unique_ptr<Codec> make_cuda_codec(RowFormat format, Device& device);

/// The codec for rows in memory of `device`, which must outlive it. Throws Error(usage) like
/// make_cpu_codec.
std::unique_ptr<Codec> make_codec(RowFormat format, Device& device);

/// The codecs of a device, which must outlive them. Each format's is made when it is first asked
/// for.
class Codecs {
 public:
  explicit Codecs(Device& device) : device_(device) {}

  const Codec& of(RowFormat format);

 private:
  Device& device_;
  std::vector<std::unique_ptr<Codec>> made_;
};

}  // namespace heliograph
