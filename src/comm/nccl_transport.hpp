#pragma once

#include <functional>

#include "comm/communicator.hpp"

namespace heliograph {

struct NcclTransportOptions {
  double timeout_seconds = 120;  ///< Longest wait without a byte moving for the waiting rank.
};

/// Whether this build can connect CUDA devices by NCCL.
bool nccl_built() noexcept;

/// Runs body(comm) on `ranks` threads of this process, one CUDA device each, and returns when all
/// have ended. Throws Error(usage) when NCCL is not built.
void run_nccl_ranks(int ranks, const NcclTransportOptions& options,
                    const std::function<void(Communicator&)>& body);

}  // namespace heliograph
