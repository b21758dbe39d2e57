#pragma once

#include <sched.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "comm/rendezvous/run_key.hpp"
#include "comm/rendezvous/socket.hpp"

namespace heliograph {

/// What one process of a run tells the others about itself, as plain bytes.
struct Introduction {
  static constexpr std::size_t kHostBytes = 64;
  static constexpr std::size_t kAddresses = 8;

  std::array<char, kHostBytes> host{};  ///< The name of the process's host, ended by 0.
  std::uint64_t machine = 0;            ///< The same for all processes of one kernel.
  std::uint64_t network = 0;            ///< The same for processes that share 127.0.0.1.
  ProofBytes token{};                   ///< Random. Ranks that connect must know that of rank 0.
  /// The addresses at which the process listens. Others try all that are known.
  std::array<InternetAddress, kAddresses> addresses{};
  std::uint16_t port = 0;  ///< The port at which the process listens, in host byte order.
  /// 1: the process listens at all addresses of its host, also at 127.0.0.1.
  std::uint16_t everywhere = 1;
  std::uint16_t quota = 0;  ///< The CPU quota of the process's control groups; 0: none.
  std::uint16_t unused = 0;
  cpu_set_t cores{};  ///< The cores that the process may run on.

  std::string host_name() const;
  bool shares_host(const Introduction& other) const { return machine == other.machine; }
  /// Whether both processes reach each other at 127.0.0.1.
  bool shares_loopback(const Introduction& other) const {
    return shares_host(other) && network == other.network;
  }
  /// Makes `places` the only addresses at which the process listens. Keeps at most kAddresses.
  void listen_at(std::span<const InternetAddress> places);
};
static_assert(std::is_trivially_copyable_v<Introduction>);

/// Introduces this process, as if it listened at all addresses of its host; the port is 0.
Introduction introduce_process();

/// The place of a rank in its run and on its host, and how many cores it may use.
struct GroupPlace {
  int rank = 0;
  int ranks = 1;
  int ranks_on_host = 1;
  int rank_on_host = 0;
  int cores = 1;
};

/// The number of cores for `rank`: the sum of its shares, 1/n of a core that n ranks may use, but
/// no more than its share of a CPU quota, which the ranks that share its loopback interface have in
/// common.
int share_of_cores(int rank, std::span<const Introduction> all);

/// The place of `rank` among the processes that have introduced themselves; `all` is by rank.
GroupPlace find_place(int rank, std::span<const Introduction> all);

}  // namespace heliograph
