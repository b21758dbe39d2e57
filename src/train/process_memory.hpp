#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace heliograph {

/// Largest resident set of this process so far, bytes; 0 where the system does not tell.
std::int64_t peak_rss_bytes();

/// Starts the peak anew from the present resident set. False where the system cannot.
bool reset_peak_rss();

/// Physical memory of the machine, bytes.
std::int64_t physical_memory_bytes();

/// Addresses, bytes, that each of `ranks` ranks may reserve for its buffers: as many as the machine
/// has memory, or its share of half of the process's limit (`ulimit -v`), whichever is less.
std::int64_t address_space_of_a_rank(int ranks);

/// Bytes that can still be taken without swapping: what the machine has available, or what the
/// process's control groups (v1 or v2) leave of their limits, whichever is less. Nothing where the
/// system does not tell. The arguments are where it is read.
std::optional<std::int64_t> available_memory_bytes(
    const std::filesystem::path& proc = "/proc",
    const std::filesystem::path& groups = "/sys/fs/cgroup");

}  // namespace heliograph
