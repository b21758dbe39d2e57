#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace heliograph {

/// Largest resident set of this process so far, in bytes; 0 if the system does not say.
std::int64_t peak_rss_bytes();

/// Resets the peak to the present resident set. Returns false if the system does not allow it.
bool reset_peak_rss();

/// Physical memory of the machine, in bytes.
std::int64_t physical_memory_bytes();

/// Bytes of address space that each of `ranks` ranks may reserve for its buffers: the physical
/// memory, or the rank's share of half of the process's limit (`ulimit -v`), whichever is less.
std::int64_t address_space_of_a_rank(int ranks);

/// Bytes that can be allocated without swapping: those that the machine has available, or those
/// that the process's control groups (v1 or v2) leave, whichever is less. Nothing if the system
/// does not say. Tests replace the folder in which /proc and the groups lie.
std::optional<std::int64_t> available_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace heliograph
