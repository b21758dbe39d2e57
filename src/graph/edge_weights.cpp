#include "graph/edge_weights.hpp"

#include <algorithm>

#include "graph/rows.hpp"
#include "heliograph/io.hpp"

namespace heliograph {

std::optional<WeightRange> weight_range(const Graph& graph) {
  if (graph.edge_weights.empty()) return std::nullopt;
  const auto [least, most] = std::ranges::minmax_element(graph.edge_weights);
  const auto entry = least - graph.edge_weights.begin();
  const auto row = std::ranges::upper_bound(graph.offsets, entry) - graph.offsets.begin() - 1;
  return WeightRange{*least, *most, graph.neighbours[at(entry)], static_cast<NodeId>(row)};
}

void count_weights(const Graph& graph, ImportCounts& counts) {
  const WeightRange range = weight_range(graph).value_or(WeightRange());
  counts.least_weight = range.least;
  counts.most_weight = range.most;
}

}  // namespace heliograph
