#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "comm/collectives.hpp"

namespace heliograph {

/// Rank 0 receives the values of all ranks in rank order, other ranks receive nothing. Collective,
/// on Channel::evaluation.
template <class T>
std::vector<T> gather_values(Communicator& comm, std::span<const T> mine) {
  const std::vector<std::byte> bytes =
      gather_to_root(comm, Channel::evaluation, std::as_bytes(mine));
  std::vector<T> all(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

}  // namespace heliograph
