#include "core/throw_error.hpp"
#include "heliograph/error.hpp"
#include "quant/codec.hpp"

namespace heliograph {

std::unique_ptr<Codec> make_cuda_codec(RowFormat, Device&) {
  throw_error(ErrorCode::usage, "--device cuda: this build has no CUDA");
}

}  // namespace heliograph
