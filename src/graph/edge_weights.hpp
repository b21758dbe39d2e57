#pragma once

#include <cmath>
#include <optional>

#include "heliograph/dataset.hpp"

namespace heliograph {

struct ImportCounts;

/// Whether an edge may have this weight: 0, or a normal number in fp32, since the inverse of
/// another overflows.
inline bool is_edge_weight(double weight) {
  return weight == 0 || std::isnormal(static_cast<float>(weight));
}

/// The least and the greatest weight of a graph's edges, and an edge that has the least.
struct WeightRange {
  float least = 1;
  float most = 1;
  NodeId source = 0, target = 0;
};

/// The range of a graph's weights; nothing if it has none.
std::optional<WeightRange> weight_range(const Graph& graph);

/// Sets the least and the greatest weight of the counts, 1 without weights.
void count_weights(const Graph& graph, ImportCounts& counts);

}  // namespace heliograph
