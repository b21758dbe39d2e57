#include "comm/processes/launcher.hpp"

#include <cstdlib>

#include "core/parse_number.hpp"

namespace heliograph {
namespace {

std::optional<int> number_of_launcher(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::optional<int> value = parse_plain_number<int>(text);
  return value && *value >= 0 ? value : std::nullopt;
}

}  // namespace

std::optional<Launched> launched_by_mpi() {
  // Open MPI's mpirun, then the two interfaces of srun (--mpi=pmi2 and --mpi=pmix).
  if (const auto rank = number_of_launcher("OMPI_COMM_WORLD_RANK")) {
    return Launched{*rank, number_of_launcher("OMPI_COMM_WORLD_SIZE")};
  }
  if (const auto rank = number_of_launcher("PMI_RANK"))
    return Launched{*rank, number_of_launcher("PMI_SIZE")};
  if (const auto rank = number_of_launcher("PMIX_RANK")) {
    return Launched{*rank, number_of_launcher("SLURM_STEP_NUM_TASKS")};
  }
  return std::nullopt;
}

}  // namespace heliograph
