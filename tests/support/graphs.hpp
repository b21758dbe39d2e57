#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/partition.hpp"

namespace heliograph::test {

/// (u, v) stands for u -> v: u appears in row v.
using Edge = std::pair<NodeId, NodeId>;

/// Drops self-loops and duplicates; an undirected graph gets each edge in both rows.
Graph graph_from_edges(std::int64_t nodes, const std::vector<Edge>& edges, bool directed = false);

/// 0 - 1 - 2 - ... ; directed: 0 -> 1 -> 2 -> ...
Graph path_graph(std::int64_t nodes, bool directed = false);

/// Node 0 is joined to every other node; directed: 0 -> v.
Graph star_graph(std::int64_t nodes, bool directed = false);

/// Each (ordered, if directed) pair is an edge with `probability`; the same for the same seed.
Graph random_graph(std::int64_t nodes, double probability, std::uint64_t seed,
                   bool directed = false);

/// Every edge (u, v) of the graph, in row order; both directions of an undirected edge.
std::vector<Edge> edges_of(const Graph& graph);

/// Nodes 0, 1, 2, ... go to parts 0, 1, ..., parts - 1, 0, ...
Partition round_robin_partition(std::int64_t nodes, int parts);

/// Any owner for any node, the same for the same seed; parts may be empty.
Partition scattered_partition(std::int64_t nodes, int parts, std::uint64_t seed);

/// A small learnable data set: about four edges a node, 70 % of them within a class, features of
/// class mean plus noise, one split 60/20/20. Every 17th node (16, 33, ...) is unlabelled and the
/// last node is isolated, since both are ordinary. `sparse` keeps about a third of the features.
Dataset make_small_dataset(int nodes, int cols, int classes, std::uint64_t seed,
                           bool multilabel = false, bool sparse = false, bool directed = false);

}  // namespace heliograph::test
