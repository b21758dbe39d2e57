#pragma once

#include <cstdint>
#include <optional>

#include "heliograph/options.hpp"
#include "train/plan/memory_needs.hpp"

namespace heliograph {

/// Throws Error(resource) if a run needs more memory than there is. The message names what it needs
/// by use, what there is, and what to change. `limit`: the bytes that the options allow; 0:
/// compares with `available`, which is nothing if unknown. `device`: the kind of memory, for the
/// message.
void require_memory(const MemoryNeeds& needs, std::int64_t limit,
                    std::optional<std::int64_t> available, DeviceKind device = DeviceKind::cpu);

/// The same for the memory of the host of devices, which has no limit.
void require_host_memory(const MemoryNeeds& needs, std::optional<std::int64_t> available);

}  // namespace heliograph
