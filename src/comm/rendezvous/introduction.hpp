#pragma once

#include <sched.h>

#include <span>
#include <type_traits>
#include <vector>

#include "comm/rendezvous/mesh.hpp"

namespace heliograph {

/// What processes tell each other before they are a group.
struct Introduction {
  ProcessAddress address;  ///< Where its rank watch listens.
  cpu_set_t cores;         ///< That it may run on.
};
static_assert(std::is_trivially_copyable_v<Introduction>);

/// Of this process.
Introduction introduce(const ProcessAddress& address);

/// Where a rank is among all.
struct GroupPlace {
  int rank = 0;
  int ranks = 1;
  int ranks_on_host = 1;
  int rank_on_host = 0;
  int cores = 1;
};

/// The place of `rank` among those who have introduced themselves, by rank.
GroupPlace find_place(int rank, std::span<const Introduction> all);

/// The addresses of all, by rank.
std::vector<ProcessAddress> addresses_of(std::span<const Introduction> all);

}  // namespace heliograph
