#pragma once

#include <cstdint>
#include <vector>

#include "graph/shard.hpp"

namespace heliograph {

/// The bits of a plan's inner rows by BitsPolicy::degree: the rows that are sent, in ascending
/// order of their nodes' in-degrees and then node numbers, are cut into groups of equal size that
/// have `fewest` bits, twice as many and so on, up to kMostPolicyBits. Rows that are not sent have
/// the fewest.
std::vector<std::uint8_t> bits_by_degree(const HaloPlan& plan, const Shard& shard, int fewest);

}  // namespace heliograph
