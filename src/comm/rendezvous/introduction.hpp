#pragma once

#include <sched.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "comm/rendezvous/socket.hpp"

namespace heliograph {

/// What one process of a run tells the others about itself, as plain bytes.
struct Introduction {
  static constexpr std::size_t kHostBytes = 64;
  static constexpr std::size_t kAddresses = 8;

  std::array<char, kHostBytes> host{};  ///< The name of the process's host, ended by 0.
  std::uint64_t machine = 0;            ///< The same for all processes of one kernel.
  std::uint64_t network = 0;            ///< The same for processes that share 127.0.0.1.
  std::uint64_t token = 0;              ///< A random number. That of rank 0 identifies the run.
  /// The addresses of the process. Processes on other hosts try all that are known.
  std::array<InternetAddress, kAddresses> addresses{};
  std::uint16_t port = 0;  ///< The port at which the process listens, in host byte order.
  std::uint16_t unused[3] = {};
  cpu_set_t cores{};  ///< The cores that the process may run on.

  std::string host_name() const;
  bool shares_host(const Introduction& other) const { return machine == other.machine; }
};
static_assert(std::is_trivially_copyable_v<Introduction>);

/// Introduces this process, which listens at `port`.
Introduction introduce_process(std::uint16_t port);

/// The place of a rank in its run and on its host, and how many cores it may use.
struct GroupPlace {
  int rank = 0;
  int ranks = 1;
  int ranks_on_host = 1;
  int rank_on_host = 0;
  int cores = 1;
};

/// The place of `rank` among the processes that have introduced themselves; `all` is by rank.
GroupPlace find_place(int rank, std::span<const Introduction> all);

}  // namespace heliograph
