#pragma once

#include <optional>

namespace heliograph {

/// What mpirun or srun says in the environment of the processes that it starts.
struct Launched {
  int rank = 0;
  std::optional<int> processes;  ///< Nothing where the launcher does not say it.
};

/// Nothing if no MPI launcher started this process.
std::optional<Launched> launched_by_mpi();

}  // namespace heliograph
