#include <algorithm>
#include <numeric>

#include "graph/rows.hpp"
#include "graph/shard.hpp"
#include "graph/validate.hpp"
#include "heliograph/partition.hpp"

namespace heliograph {
namespace {

/// Counts the halo nodes of each part: a node is in the halo of every other part that owns one of
/// its neighbours in `readers`.
void count_halos(const Graph& readers, const Partition& partition, PartitionQuality& quality) {
  std::vector<NodeId> last_in(at(partition.parts), -1);  // The node last counted for each part.
  for (NodeId v = 0; v < readers.nodes; ++v) {
    last_in[at(partition.owner[at(v)])] = v;
    for (const NodeId reader : neighbours_of(readers, v)) {
      const auto part = at(partition.owner[at(reader)]);
      if (last_in[part] == v) continue;
      last_in[part] = v;
      ++quality.halo_nodes[part];
    }
  }
}

double largest_over_mean(const std::vector<std::int64_t>& counts) {
  const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (total == 0) return 1.0;
  return static_cast<double>(*std::max_element(counts.begin(), counts.end())) *
         static_cast<double>(counts.size()) / static_cast<double>(total);
}

}  // namespace

PartitionQuality measure_partition(const Graph& graph, const Partition& partition) {
  validate_graph(graph, "the graph");
  check_partition_size(graph, partition);
  for (NodeId v = 0; v < graph.nodes; ++v) checked_owner(partition, v);
  const std::size_t parts = at(partition.parts);
  PartitionQuality quality;
  quality.inner_nodes.assign(parts, 0);
  quality.halo_nodes.assign(parts, 0);
  quality.inner_edges.assign(parts, 0);
  quality.halo_edges.assign(parts, 0);
  for (NodeId v = 0; v < graph.nodes; ++v) {
    const auto owner = partition.owner[at(v)];
    ++quality.inner_nodes[at(owner)];
    std::int64_t inner = 0;
    for (const NodeId u : neighbours_of(graph, v)) inner += partition.owner[at(u)] == owner ? 1 : 0;
    quality.inner_edges[at(owner)] += inner;
    quality.halo_edges[at(owner)] += graph.degree(v) - inner;
  }
  if (graph.directed) {
    count_halos(transpose(graph), partition, quality);
  } else {
    count_halos(graph, partition, quality);
  }

  quality.edge_cut =
      std::accumulate(quality.halo_edges.begin(), quality.halo_edges.end(), std::int64_t{0});
  if (!graph.directed) quality.edge_cut /= 2;
  quality.communication_volume =
      std::accumulate(quality.halo_nodes.begin(), quality.halo_nodes.end(), std::int64_t{0});
  quality.node_balance = largest_over_mean(quality.inner_nodes);
  std::vector<std::int64_t> entries(parts);
  std::transform(quality.inner_edges.begin(), quality.inner_edges.end(), quality.halo_edges.begin(),
                 entries.begin(), std::plus<>());
  quality.edge_balance = largest_over_mean(entries);
  return quality;
}

}  // namespace heliograph
