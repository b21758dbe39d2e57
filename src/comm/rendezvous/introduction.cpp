#include "comm/rendezvous/introduction.hpp"

#include <algorithm>

namespace heliograph {
namespace {

bool shares_host(const Introduction& a, const Introduction& b) {
  return a.address.machine == b.address.machine;
}

/// Cores of `mine`, each counted as the share that this rank has of it.
int share_of_cores(const Introduction& mine, std::span<const Introduction> all) {
  double share = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &mine.cores)) continue;
    const auto users = std::count_if(all.begin(), all.end(), [&](const Introduction& other) {
      return shares_host(mine, other) && CPU_ISSET(core, &other.cores);
    });
    share += 1.0 / static_cast<double>(users);
  }
  return std::max(1, static_cast<int>(share + 1e-9));
}

}  // namespace

Introduction introduce(const ProcessAddress& address) {
  Introduction mine{};
  mine.address = address;
  sched_getaffinity(0, sizeof(mine.cores), &mine.cores);
  return mine;
}

GroupPlace find_place(int rank, std::span<const Introduction> all) {
  const Introduction& mine = all[static_cast<std::size_t>(rank)];
  const auto shares = [&](const Introduction& other) { return shares_host(mine, other); };
  GroupPlace place;
  place.rank = rank;
  place.ranks = static_cast<int>(all.size());
  place.ranks_on_host = static_cast<int>(std::count_if(all.begin(), all.end(), shares));
  place.rank_on_host = static_cast<int>(std::count_if(all.begin(), all.begin() + rank, shares));
  place.cores = share_of_cores(mine, all);
  return place;
}

std::vector<ProcessAddress> addresses_of(std::span<const Introduction> all) {
  std::vector<ProcessAddress> addresses;
  for (const Introduction& one : all) addresses.push_back(one.address);
  return addresses;
}

}  // namespace heliograph
