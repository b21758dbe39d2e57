#include "core/cuda/wide.hpp"
#include "device/decode_rows.hpp"
#include "quant/cuda/row_codec.hpp"
#include "quant/cuda/with_bits.hpp"
#include "quant/row_math.hpp"

namespace heliograph::cuda {
namespace {

/// Each warp decodes a row, one column a lane. Bound by the 4 bytes a value that it writes.
template <int kBits>
__global__ void decode_kernel(PackedRows packed, MatrixView out) {
  const std::int64_t r = global_warp();
  if (r >= packed.rows) return;
  packed.format.bits = kBits;
  const std::byte* row = packed.row(r);
  for (std::int64_t c = lane(); c < packed.cols; c += kWarp) {
    out.data[r * out.stride + c] = decode_value(row, packed.format, packed.cols, c);
  }
}

}  // namespace

void decode_rows(Queue& queue, const PackedRows& packed, MatrixView out) {
  with_bits(packed.format.bits, [&](auto bits) {
    launch(queue, "decode rows", decode_kernel<bits()>, cover_by_warps(packed.rows), packed, out);
  });
}

}  // namespace heliograph::cuda
