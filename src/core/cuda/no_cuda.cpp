#include "core/kernels.hpp"
#include "heliograph/error.hpp"

namespace heliograph {

std::unique_ptr<Kernels> make_cuda_kernels(int /*device*/, bool /*reproducible*/) {
  throw Error(ErrorCode::usage, "--device cuda: this build has no CUDA kernels");
}

}  // namespace heliograph
