#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include "core/memory_source.hpp"

namespace heliograph {

/// Copies between two places, each in memory of the host or of a device, and returns when it is
/// done. Any thread. May throw Error(resource).
using CopyBytes = void (*)(std::byte* to, const std::byte* from, std::size_t bytes);

/// Both places are the host's.
inline void copy_on_host(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

/// Each place is the host's or a CUDA device's. Throws Error(usage) where the build has no CUDA.
void copy_by_cuda(std::byte* to, const std::byte* from, std::size_t bytes);

/// The calling thread works for `rank`: on its device, `rank % cuda_devices()`. May throw
/// Error(resource).
void select_cuda_device(int rank);

/// Memory of the CUDA device that the calling thread works on, for messages of transports that map
/// it into other processes or register it. To take and to give back may wait for all that the
/// device does. Throws Error(usage) where the build has no CUDA.
std::unique_ptr<MemorySource> make_cuda_message_memory();

/// Free memory of the CUDA devices that `ranks` ranks of this process use, all together; nothing
/// where there are none.
std::optional<std::int64_t> cuda_available_bytes(int ranks);

/// Has every kernel loaded when CUDA starts, which must not have happened yet. Loaded when it is
/// first launched, a kernel may wait for messages in flight, which wait for other ranks.
void load_cuda_kernels_at_once() noexcept;

}  // namespace heliograph
