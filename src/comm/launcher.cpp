#include "comm/launcher.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace heliograph {
namespace {

std::optional<int> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  int value = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (error != std::errc{} || end != view.data() + view.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::optional<Launched> launched_by_mpi() {
  // Open MPI's mpirun, then the two interfaces of srun (--mpi=pmi2 and --mpi=pmix).
  if (const auto rank = number_in("OMPI_COMM_WORLD_RANK")) {
    return Launched{*rank, number_in("OMPI_COMM_WORLD_SIZE")};
  }
  if (const auto rank = number_in("PMI_RANK")) return Launched{*rank, number_in("PMI_SIZE")};
  if (const auto rank = number_in("PMIX_RANK")) {
    return Launched{*rank, number_in("SLURM_STEP_NUM_TASKS")};
  }
  return std::nullopt;
}

}  // namespace heliograph
