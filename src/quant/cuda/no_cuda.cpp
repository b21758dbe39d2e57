#include "core/throw_error.hpp"
#include "heliograph/error.hpp"
#include "quant/codec.hpp"
#include "quant/kept_columns.hpp"

namespace heliograph {

std::unique_ptr<Codec> make_cuda_codec(RowFormat, Device&) {
  throw_error(ErrorCode::usage, "--device cuda: this build has no CUDA");
}

namespace cuda {

// No device has a queue, so nobody calls these.

void draw_columns(Queue&, const ColumnMasks&, std::uint32_t, std::uint64_t, std::int64_t,
                  const std::int64_t*, std::int64_t, std::int64_t*) {}
void compress_columns(Queue&, const ColumnMasks&, const std::byte*, std::byte*, std::int64_t,
                      std::int64_t) {}
void expand_columns(Queue&, const ColumnMasks&, const std::byte*, std::byte*, std::int64_t) {}

}  // namespace cuda

}  // namespace heliograph
