#include <bit>
#include <cmath>

#include "core/cuda/wide.hpp"
#include "quant/cuda/row_codec.hpp"

namespace heliograph::cuda {
namespace {

/// Each thread copies one value. Bound by the 8 bytes a value that it reads and writes.
__global__ void encode_exact_kernel(EncodeTask task) {
  const std::int64_t thread = global_thread();
  const std::int64_t index = thread / task.exact.cols;
  if (index >= task.count) return;
  const std::int64_t c = thread % task.exact.cols;
  const std::int64_t row = task.positions == nullptr ? index : task.positions[index];
  const float value = task.exact.data[task.rows[index] * task.exact.stride + c];
  std::byte* out = task.out + static_cast<std::size_t>(row) * task.row_bytes;
  store_bytes<4>(out + task.format.exact_begin(task.x.cols) + 4 * c,
                 std::bit_cast<std::uint32_t>(value));
  if (!std::isfinite(value))
    atomicMin(task.failed, static_cast<std::int32_t>(task.first + index) - kNoFailedRow);
}

}  // namespace

void encode_exact(Queue& queue, const EncodeTask& task) {
  if (task.format.exact_cols == 0) return;
  launch(queue, "encode exact columns", encode_exact_kernel, cover(task.count * task.exact.cols),
         task);
}

}  // namespace heliograph::cuda
