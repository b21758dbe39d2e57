#pragma once

#include <cstdint>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

/// Most nodes of a cluster of `NodeOrder::cluster`: its rows fit a shared cache together, 8 MiB at
/// 256 columns.
inline constexpr std::int64_t kClusterNodes = 8192;

/// What `NodeOrder::automatic` stands for on this graph; other orders stand for themselves.
/// Neighbours are gathered from within a cluster's rows anyway where the graph is that small, and
/// where rows have so many entries that they are gathered in blocks (GatherBlocks).
NodeOrder resolve_order(const Graph& graph, NodeOrder order);

/// A cluster for each node, in [0, nodes) but not dense: size-capped label propagation (Raghavan,
/// Albert and Kumara, 2007; a node takes the label that most of its in-neighbours hold, unless
/// that cluster is full). A few passes over the edges, in id order, so it is the same on every run.
/// `most_nodes` >= 1. Time: rounds x edges. Memory: 16 bytes a node.
std::vector<std::int32_t> cluster_nodes(const Graph& graph, std::int64_t most_nodes);

/// Every node once, in the order in which ranks number theirs; the same on every run. Empty stands
/// for the order of ids. Ranks that own part of a cluster each keep that part together, so halos
/// profit too.
std::vector<NodeId> order_nodes(const Graph& graph, NodeOrder order);

}  // namespace heliograph
