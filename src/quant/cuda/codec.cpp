#include "quant/codec.hpp"

#include <vector>

#include "core/buffer.hpp"
#include "heliograph/error.hpp"
#include "quant/cuda/row_codec.hpp"
#include "quant/row_codec.hpp"

namespace heliograph {
namespace {

/// Codec for rows on a CUDA device. Works on the device's queue and is used by its thread.
class CudaCodec final : public Codec {
 public:
  CudaCodec(RowFormat format, Device& device)
      : format_(format),
        device_(device),
        queue_(*device.queue()),
        account_(device.memory()),
        failed_(sizeof(std::int32_t), MemoryUse::workspace, &account_) {}

  RowFormat format() const override { return format_; }

  UnencodableRow encode(ConstMatrixView x, const RowSelection& selection, std::uint64_t stream,
                        std::byte* out, ThreadPool& /*threads*/) const override {
    auto* failed = selection.failed != nullptr ? selection.failed
                                               : reinterpret_cast<std::int32_t*>(failed_.data());
    cuda::EncodeTask task;
    task.x = x;
    task.rows = selection.rows.data();
    task.count = static_cast<std::int64_t>(selection.rows.size());
    task.row_scale = selection.row_scale;
    task.global_ids = selection.global_ids;
    task.positions = selection.positions;
    task.bits = selection.bits;
    task.exact = selection.exact;
    task.stream = stream;
    task.out = out;
    task.format = format_;
    task.row_bytes = format_.row_bytes(x.cols);
    task.failed = failed;
    task.first = selection.failed != nullptr ? selection.first : 0;
    cuda::encode_rows(queue_, task);
    cuda::encode_exact(queue_, task);
    if (selection.failed != nullptr) return {};
    std::int32_t least = 0;
    device_.download(&least, failed, sizeof(least));  // also waits for the encoded rows
    if (least == 0) return {};
    queue_.clear(failed, sizeof(least));
    return describe(x, selection, least + kNoFailedRow);
  }

 private:
  /// Copies row `index` of the selection to the host and finds why it cannot be encoded.
  UnencodableRow describe(ConstMatrixView x, const RowSelection& selection,
                          std::int32_t index) const {
    std::int32_t row = 0;
    float scale = 1;
    std::uint8_t bits = 0;
    std::vector<float> values(static_cast<std::size_t>(x.cols));
    std::vector<float> exact(static_cast<std::size_t>(format_.exact_cols));
    device_.download(&row, selection.rows.data() + index, sizeof(row));
    if (selection.row_scale != nullptr) {
      device_.download(&scale, selection.row_scale + row, sizeof(scale));
    }
    if (selection.bits != nullptr) {
      device_.download(&bits, selection.bits + row, sizeof(bits));
    }
    device_.download(values.data(), x.row(row), values.size() * sizeof(float));
    device_.download(exact.data(), selection.exact.row(row), exact.size() * sizeof(float));
    const std::int32_t only = 0;
    EncodeJob job;
    job.x = {values.data(), 1, x.cols, x.cols};
    job.selection.rows = {&only, 1};
    job.selection.row_scale = &scale;
    if (selection.bits != nullptr) job.selection.bits = &bits;
    job.selection.exact = {exact.data(), 1, format_.exact_cols, format_.exact_cols};
    job.format = format_;
    UnencodableRow bad = describe_unencodable(job, 0);
    bad.row = row;
    return bad;
  }

  RowFormat format_;
  Device& device_;
  cuda::Queue& queue_;
  MemoryAccount account_;
  Buffer failed_;
};

}  // namespace

std::unique_ptr<Codec> make_cuda_codec(RowFormat format, Device& device) {
  if (device.queue() == nullptr) throw Error(ErrorCode::usage, "the device is not a CUDA device");
  return std::make_unique<CudaCodec>(format, device);
}

}  // namespace heliograph
