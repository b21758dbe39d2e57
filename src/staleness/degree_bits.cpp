#include "staleness/degree_bits.hpp"

#include <algorithm>
#include <cstddef>

#include "staleness/exchange_policy.hpp"

namespace heliograph {

std::vector<std::uint8_t> bits_by_degree(const HaloPlan& plan, const Shard& shard, int fewest) {
  std::vector<std::size_t> sent;
  for (const HaloPlan::Peer& peer : plan.peers) {
    sent.insert(sent.end(), peer.sent.begin(), peer.sent.end());
  }
  std::ranges::sort(sent);
  sent.erase(std::unique(sent.begin(), sent.end()), sent.end());
  const auto degree = [&](std::size_t row) { return shard.in_degree[row]; };
  std::ranges::sort(sent, {}, degree);
  std::size_t groups = 1;
  while (fewest << groups <= kMostPolicyBits) ++groups;
  std::vector<std::uint8_t> bits(static_cast<std::size_t>(plan.inner_rows),
                                 static_cast<std::uint8_t>(fewest));
  for (const std::size_t row : sent) {
    const auto up_to = std::ranges::upper_bound(sent, degree(row), {}, degree) - sent.begin();
    const std::size_t group = (static_cast<std::size_t>(up_to) * groups - 1) / sent.size();
    bits[row] = static_cast<std::uint8_t>(fewest << group);
  }
  return bits;
}

}  // namespace heliograph
