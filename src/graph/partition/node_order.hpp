#pragma once

#include <cstdint>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

/// The largest number of nodes in a cluster of `NodeOrder::cluster`. At 256 columns its fp32 rows
/// take 8 MiB and fit into a shared cache.
inline constexpr std::int64_t kClusterNodes = 8192;

/// Resolves `NodeOrder::automatic` for this graph and returns other orders unchanged. The answer is
/// `id` where clusters gain nothing: in a graph no larger than one cluster, and in a dense graph,
/// where rows are gathered in blocks (GatherBlocks). Otherwise it is `cluster`.
NodeOrder resolve_order(const Graph& graph, NodeOrder order);

/// Clusters nodes by label propagation (Raghavan, Albert and Kumara, 2007) with at most
/// `most_nodes`
/// >= 1 nodes a cluster: a node takes the label that most of its in-neighbours have, unless that
/// cluster is full. Returns each node's cluster, a number in [0, nodes); numbers may be unused.
/// Nodes are visited in id order, so every run gives the same result. Needs time proportional to
/// the edges and 16 bytes a node.
std::vector<std::int32_t> cluster_nodes(const Graph& graph, std::int64_t most_nodes);

/// All nodes in the order in which ranks number the nodes they own, or an empty list for the order
/// of ids. The order is the same on every run. A rank's share of a cluster stays together, which
/// helps halo rows as well.
std::vector<NodeId> order_nodes(const Graph& graph, NodeOrder order);

}  // namespace heliograph
