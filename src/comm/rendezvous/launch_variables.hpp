#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heliograph {

/// What torchrun, or whoever starts processes in its manner, says in their environment.
struct LaunchVariables {
  int rank = 0;                   ///< RANK.
  int ranks = 1;                  ///< WORLD_SIZE.
  std::optional<int> local_rank;  ///< LOCAL_RANK.
  /// Where rank 0 is met: MASTER_ADDR, a name or a number, and MASTER_PORT. Empty for a run of one
  /// process, which meets nobody.
  std::string address;
  std::uint16_t port = 0;
  /// TORCHELASTIC_USE_AGENT_STORE: torchrun itself listens at `port`.
  bool port_is_taken = false;
  std::string run;  ///< TORCHELASTIC_RUN_ID, and TORCHELASTIC_RESTART_COUNT.

  /// Where rank 0 listens, at the first that is free: `port`, or, where that is taken, one of the
  /// kPortsAfter behind it (before it, at the end of the range).
  std::vector<std::uint16_t> ports() const;
  static constexpr int kPortsAfter = 8;

  /// Equal on the processes of a run, as far as the variables tell.
  std::uint64_t run_id() const;
};

/// Nothing where neither RANK nor WORLD_SIZE is set.
/// Throws Error(usage) that names what is missing, no number or out of range.
std::optional<LaunchVariables> launch_variables();

}  // namespace heliograph
