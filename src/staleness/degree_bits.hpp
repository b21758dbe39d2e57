#pragma once

#include <cstdint>
#include <vector>

#include "graph/shard.hpp"

namespace heliograph {

/// The bits of a plan's inner rows by BitsPolicy::degree: with n numbers of bits, `fewest`, twice
/// as many and so on, up to kMostPolicyBits, a row has the k-th of them if a share of at most k / n
/// of the rows that are sent have in-degrees up to that of its node. Rows that are not sent have
/// the fewest.
std::vector<std::uint8_t> bits_by_degree(const HaloPlan& plan, const Shard& shard, int fewest);

}  // namespace heliograph
