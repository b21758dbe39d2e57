#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <string>

namespace heliograph::cuda_emulation {

/// The most bytes of shared memory that a launch may request without an opt-in, as on a device.
inline constexpr std::size_t kMostShared = 48 * 1024;

/// Runs all blocks of a kernel. Returns what went wrong, or an empty string.
std::string run_grid(dim3 grid, dim3 block, std::size_t shared_bytes, bool backwards,
                     const std::function<void()>& thread);

}  // namespace heliograph::cuda_emulation
