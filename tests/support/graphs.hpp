#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/partition.hpp"

namespace heliograph::test {

/// (u, v) stands for the edge u -> v: u appears in row v.
using Edge = std::pair<NodeId, NodeId>;

/// A graph of these edges without self-loops and duplicates. If undirected, each edge is in two
/// rows.
Graph graph_from_edges(std::int64_t nodes, const std::vector<Edge>& edges, bool directed = false);

/// The path 0 - 1 - 2 - ..., or 0 -> 1 -> 2 -> ... if directed.
Graph path_graph(std::int64_t nodes, bool directed = false);

/// Node 0 is joined to every other node v; if directed, by 0 -> v.
Graph star_graph(std::int64_t nodes, bool directed = false);

/// Each pair of nodes (ordered if directed) is an edge with `probability`. A seed has one graph.
Graph random_graph(std::int64_t nodes, double probability, std::uint64_t seed,
                   bool directed = false);

/// Every edge (u, v) of the graph in row order. An undirected edge is listed in both directions.
std::vector<Edge> edges_of(const Graph& graph);

/// Node v belongs to part v % parts.
Partition round_robin_partition(std::int64_t nodes, int parts);

/// Nodes belong to random parts, some of which may be empty. A seed has one partition.
Partition scattered_partition(std::int64_t nodes, int parts, std::uint64_t seed);

/// A small learnable data set: about four edges a node, 70 % of them within a class, features of
/// class mean plus noise, one split 60/20/20. Every 17th node (16, 33, ...) is unlabelled and the
/// last node is isolated, since both are ordinary. `sparse` keeps about a third of the features.
Dataset make_small_dataset(int nodes, int cols, int classes, std::uint64_t seed,
                           bool multilabel = false, bool sparse = false, bool directed = false);

/// `data` with a weight for each edge, from 0.1 to 2 but for every eighth, which is 0. Both
/// directions of an undirected edge have one weight.
Dataset with_weights(Dataset data);

/// The weight of an edge in with_weights.
float weight_of(NodeId source, NodeId target, bool directed);

/// `data` with one number a node instead of classes: 1000, 60 times its class, and 10 times the
/// first column of its dense features. NaN where the node is unlabelled.
Dataset with_numbers(Dataset data);

}  // namespace heliograph::test
