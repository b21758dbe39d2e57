#include "quant/codec.hpp"

#include <algorithm>
#include <atomic>
#include <string>

#include "heliograph/error.hpp"
#include "quant/row_codec.hpp"

namespace heliograph {
namespace {

using EncodeRows = std::int64_t (*)(const EncodeJob&, std::int64_t, std::int64_t);

/// Rows of one task, enough that the cost of starting a task is negligible.
std::int64_t rows_per_task(std::int64_t cols) {
  return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, cols));
}

class RowwiseCodec final : public Codec {
 public:
  RowwiseCodec(RowFormat format, EncodeRows encode_rows)
      : format_(format), encode_rows_(encode_rows) {}

  RowFormat format() const override { return format_; }

  UnencodableRow encode(ConstMatrixView x, const RowSelection& selection, std::uint64_t stream,
                        std::byte* out, ThreadPool& threads) const override {
    const EncodeJob job{x, selection, stream, out, format_, format_.row_bytes(x.cols)};
    const auto count = static_cast<std::int64_t>(selection.rows.size());
    std::atomic<std::int64_t> first{count};
    const std::int64_t grain = rows_per_task(x.cols + format_.exact_cols);
    threads.for_ranges(count, grain, [&](std::int64_t begin, std::int64_t end) {
      if (begin >= first.load(std::memory_order_relaxed)) return;
      const std::int64_t stopped = copy_exact_columns(job, begin, encode_rows_(job, begin, end));
      if (stopped == end) return;
      std::int64_t seen = first.load(std::memory_order_relaxed);
      while (stopped < seen && !first.compare_exchange_weak(seen, stopped)) {
      }
    });
    const std::int64_t failed = first.load();
    return failed == count ? UnencodableRow{} : describe_unencodable(job, failed);
  }

 private:
  RowFormat format_;
  EncodeRows encode_rows_;
};

RowFormat checked(RowFormat format) {
  const int bits = format.bits;
  if (format.groups < 1) throw Error(ErrorCode::usage, "groups must be at least 1");
  if (bits > 0 && bits <= 32 && (bits & (bits - 1)) == 0) return format;
  throw Error(ErrorCode::usage, "bits must be 1, 2, 4, 8, 16 or 32, not " + std::to_string(bits));
}

}  // namespace

std::unique_ptr<Codec> make_cpu_codec(RowFormat format) {
  return std::make_unique<RowwiseCodec>(checked(format), encode_rows_simd);
}

std::unique_ptr<Codec> make_reference_codec(RowFormat format) {
  return std::make_unique<RowwiseCodec>(checked(format), encode_rows_reference);
}

std::unique_ptr<Codec> make_codec(RowFormat format, Device& device) {
  return device.queue() != nullptr ? make_cuda_codec(checked(format), device)
                                   : make_cpu_codec(format);
}

const Codec& Codecs::of(RowFormat format) {
  for (const auto& codec : made_) {
    if (codec->format() == format) return *codec;
  }
  return *made_.emplace_back(make_codec(format, device_));
}

}  // namespace heliograph
