#pragma once

#include <functional>

#include "comm/communicator.hpp"

namespace heliograph {

struct MpiTransportOptions {
  double timeout_seconds = 120;  ///< Longest wait without a byte moving for the waiting rank.
};

/// Whether this build can run ranks as MPI processes.
bool mpi_built() noexcept;

/// Runs body(comm) as the one rank that this process is among those that mpirun started.
/// Throws Error(usage) when MPI is not built.
void run_mpi_rank(const MpiTransportOptions& options,
                  const std::function<void(Communicator&)>& body);

}  // namespace heliograph
