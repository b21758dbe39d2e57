#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "core/memory_source.hpp"

namespace heliograph {

/// A function that copies `bytes` bytes, between host and device memory in any combination, and
/// returns when they are copied. Safe on any thread. May throw Error(resource).
using CopyBytes = void (*)(std::byte* to, const std::byte* from, std::size_t bytes);

/// CopyBytes within host memory.
inline void copy_on_host(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

/// CopyBytes for memory of the host and CUDA devices. Throws Error(usage) in a build without CUDA.
void copy_by_cuda(std::byte* to, const std::byte* from, std::size_t bytes);

/// Copies a pattern between any two devices of the `ranks` ranks of this process, each way, and
/// compares it on the host. Some machines lose such copies without an error. From then on
/// copy_by_cuda takes messages of such a pair through page-locked memory of the host. Returns a
/// sentence for the user that names these pairs; empty if there are none. Throws Error(resource).
std::string check_copies_between_devices(int ranks);

/// Selects the device of `rank`, `rank % cuda_devices()`, for the calling thread. Does nothing
/// without devices. May throw Error(resource).
void select_cuda_device(int rank);

/// Memory of the calling thread's CUDA device for messages, for transports that map it into other
/// processes or register it. `take` and `give_back` may wait for all work of the device. Throws
/// Error(usage) in a build without CUDA.
std::unique_ptr<MemorySource> make_cuda_message_memory();

/// Free bytes on all CUDA devices together that `ranks` ranks of this process use; nullopt if
/// there is no device.
std::optional<std::int64_t> cuda_available_bytes(int ranks);

/// Makes CUDA load every kernel when it starts; call this before any CUDA call. Loading a kernel at
/// its first launch could wait for messages in flight, and so for other ranks.
void load_cuda_kernels_at_once() noexcept;

}  // namespace heliograph
