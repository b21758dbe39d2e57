#include "heliograph/error.hpp"
#include "quant/codec.hpp"

namespace heliograph {

std::unique_ptr<Codec> make_cuda_codec(RowFormat, Device&) {
  throw Error(ErrorCode::usage, "--device cuda: this build has no CUDA");
}

}  // namespace heliograph
