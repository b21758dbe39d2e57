#include "comm/rendezvous/introduction.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <vector>

#include "core/control_groups.hpp"

namespace heliograph {
namespace {

std::uint64_t machine_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  if (std::getline(file, text)) return std::hash<std::string>{}(text);
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return std::hash<std::string>{}(name);
}

std::uint64_t network_id() {
  struct stat status {};
  if (stat("/proc/self/ns/net", &status) != 0) return 0;
  return (static_cast<std::uint64_t>(status.st_dev) << 32) ^
         static_cast<std::uint64_t>(status.st_ino);
}

}  // namespace

int share_of_cores(int rank, std::span<const Introduction> all) {
  const Introduction& mine = all[static_cast<std::size_t>(rank)];
  double share = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &mine.cores)) continue;
    const auto users = std::count_if(all.begin(), all.end(), [&](const Introduction& other) {
      return mine.shares_host(other) && CPU_ISSET(core, &other.cores);
    });
    share += 1.0 / static_cast<double>(users);
  }
  if (mine.quota > 0) {
    const auto users = std::count_if(all.begin(), all.end(), [&](const Introduction& other) {
      return mine.shares_loopback(other);
    });
    share = std::min(share, mine.quota / static_cast<double>(users));
  }
  return std::max(1, static_cast<int>(share + 1e-9));
}

std::string Introduction::host_name() const {
  return {host.data(), strnlen(host.data(), host.size())};
}

void Introduction::listen_at(std::span<const InternetAddress> places) {
  addresses = {};
  std::copy_n(places.begin(), std::min(places.size(), addresses.size()), addresses.begin());
  everywhere = 0;
}

Introduction introduce_process() {
  Introduction mine;
  gethostname(mine.host.data(), mine.host.size() - 1);
  mine.machine = machine_id();
  mine.network = network_id();
  mine.token = random_bytes();
  const std::vector<InternetAddress> own = own_addresses();
  std::copy_n(own.begin(), std::min(own.size(), mine.addresses.size()), mine.addresses.begin());
  sched_getaffinity(0, sizeof(mine.cores), &mine.cores);
  mine.quota = static_cast<std::uint16_t>(std::min(quota_of_cpus().value_or(0), 0xffff));
  return mine;
}

GroupPlace find_place(int rank, std::span<const Introduction> all) {
  const Introduction& mine = all[static_cast<std::size_t>(rank)];
  const auto shares = [&](const Introduction& other) { return mine.shares_host(other); };
  GroupPlace place;
  place.rank = rank;
  place.ranks = static_cast<int>(all.size());
  place.ranks_on_host = static_cast<int>(std::count_if(all.begin(), all.end(), shares));
  place.rank_on_host = static_cast<int>(std::count_if(all.begin(), all.begin() + rank, shares));
  place.cores = share_of_cores(rank, all);
  return place;
}

}  // namespace heliograph
