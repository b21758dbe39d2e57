#pragma once

#include <vector>

#include "comm/communicator.hpp"
#include "comm/nccl/link.hpp"

namespace heliograph {

// What ranks tell each other on the evaluation channel before NCCL connects them. Collective.

/// Throws Error(usage) if two ranks are on one device, and names both, as NCCL's own refusal does
/// not.
void refuse_shared_devices(Communicator& host, int device);

/// `count` ids that rank 0 makes, the same on all ranks.
std::vector<NcclLink::Id> share_ids(Communicator& host, std::size_t count);

}  // namespace heliograph
