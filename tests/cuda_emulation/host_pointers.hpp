#pragma once

#include <string>

#include "runtime.hpp"

namespace heliograph::cuda_emulation {

/// Says which argument of the kernel holds an address of the host's memory, where kernels here, but
/// not those on a device, would find what they look for; an empty string if none does.
std::string find_host_pointer(const KnownKernel& kernel, void** arguments);

}  // namespace heliograph::cuda_emulation
