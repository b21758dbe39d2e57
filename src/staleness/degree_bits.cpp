#include "staleness/degree_bits.hpp"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "staleness/exchange_policy.hpp"

namespace heliograph {

std::vector<std::uint8_t> bits_by_degree(const HaloPlan& plan, const Shard& shard, int fewest) {
  std::vector<std::size_t> sent;
  for (const HaloPlan::Peer& peer : plan.peers) {
    sent.insert(sent.end(), peer.sent.begin(), peer.sent.end());
  }
  const auto by_degree = [&](std::size_t row) {
    return std::tuple(shard.in_degree[row], shard.global_ids[row]);
  };
  std::ranges::sort(sent, {}, by_degree);
  sent.erase(std::ranges::unique(sent).begin(), sent.end());
  std::size_t groups = 1;
  while (fewest << groups <= kMostPolicyBits) ++groups;
  std::vector<std::uint8_t> bits(static_cast<std::size_t>(plan.inner_rows),
                                 static_cast<std::uint8_t>(fewest));
  for (std::size_t i = 0; i < sent.size(); ++i) {
    bits[sent[i]] = static_cast<std::uint8_t>(fewest << (i * groups / sent.size()));
  }
  return bits;
}

}  // namespace heliograph
