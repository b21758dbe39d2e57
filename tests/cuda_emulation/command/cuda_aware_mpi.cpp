// Replaces the MPI library's answer about CUDA in the command on the emulated device.

#include <cstdlib>

#include "comm/mpi/transport.hpp"

namespace heliograph {

bool mpi_is_cuda_aware() noexcept {
  return std::getenv("HELIOGRAPH_EMULATED_CUDA_AWARE_MPI") != nullptr;
}

}  // namespace heliograph
