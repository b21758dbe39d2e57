#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace heliograph {

/// Copies between two places, each in memory of the host or of a device, and returns when it is
/// done. Any thread. May throw Error(resource).
using CopyBytes = void (*)(std::byte* to, const std::byte* from, std::size_t bytes);

/// Both places are the host's.
void copy_on_host(std::byte* to, const std::byte* from, std::size_t bytes);

/// Each place is the host's or a CUDA device's. Throws Error(usage) where the build has no CUDA.
void copy_by_cuda(std::byte* to, const std::byte* from, std::size_t bytes);

/// Free memory of the CUDA devices that this process can use, all together; nothing where there are
/// none.
std::optional<std::int64_t> cuda_available_bytes();

}  // namespace heliograph
