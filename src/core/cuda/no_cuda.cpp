#include "core/kernels.hpp"
#include "heliograph/error.hpp"

namespace heliograph {

bool cuda_built() noexcept { return false; }

std::unique_ptr<Kernels> make_cuda_kernels(int /*device*/, bool /*reproducible*/) {
  throw Error(ErrorCode::usage, "--device cuda: this build has no CUDA kernels");
}

}  // namespace heliograph
