#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/rendezvous/run_key.hpp"

namespace heliograph {

/// What torchrun, or another launcher like it, sets in the environment of the processes it starts.
struct LaunchVariables {
  int rank = 0;                   ///< RANK.
  int ranks = 1;                  ///< WORLD_SIZE.
  std::optional<int> local_rank;  ///< LOCAL_RANK.
  /// Where rank 0 listens: MASTER_ADDR, a host name or an IP address, and MASTER_PORT. "localhost"
  /// if LOCAL_WORLD_SIZE is WORLD_SIZE, so that a run on one host is not reached from others. Empty
  /// for a run of one process.
  std::string address;
  std::uint16_t port = 0;
  /// TORCHELASTIC_USE_AGENT_STORE: torchrun itself listens at `port`.
  bool port_is_taken = false;
  std::string run;  ///< TORCHELASTIC_RUN_ID, and TORCHELASTIC_RESTART_COUNT.
  RunKey key;       ///< HELIOGRAPH_RUN_KEY; never printed or written to a file.

  /// Ports for rank 0, which listens at the first free one: `port`, or, if torchrun listens there,
  /// the next kPortsAfter ports (the ones before it at the end of the range).
  std::vector<std::uint16_t> ports() const;
  static constexpr int kPortsAfter = 8;

  /// Whether `address` means the host of whoever resolves it, so that all ranks are on one host.
  bool names_this_host() const {
    return address == "localhost" || address == "::1" || address.starts_with("127.");
  }

  /// A number that all processes of a run share. Other runs have another one if their variables
  /// differ.
  std::uint64_t run_id() const;
};

/// Reads the environment. Returns nothing if neither RANK nor WORLD_SIZE is set. Throws
/// Error(usage) that names a variable that is missing, not a number or out of range.
std::optional<LaunchVariables> launch_variables();

}  // namespace heliograph
