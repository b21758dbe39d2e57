#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"

namespace heliograph {

/// The source and target of a listed edge u -> v.
using Edge = std::pair<NodeId, NodeId>;

/// The edges of a file. `weights` is empty until an edge has a weight other than 1.
struct EdgeList {
  std::vector<Edge> edges;
  std::vector<float> weights = {};

  void add(NodeId source, NodeId target, float weight) {
    if (weights.empty() && weight != 1.0F) weights.assign(edges.size(), 1.0F);
    edges.emplace_back(source, target);
    if (!weights.empty() || weight != 1.0F) weights.push_back(weight);
  }
};

/// Throws Error(bad_input) that names edge `i`, counted from 0, unless its nodes are in [0, nodes).
void check_edge(std::int64_t i, std::int64_t source, std::int64_t target, std::int64_t nodes);

/// Builds a canonical graph (see Graph) from edges that the caller passes twice, so the list need
/// not be in memory: every edge goes to `count`; then, after `start_filling`, the same edges go to
/// `add` in any order. Needs 8 bytes a node and 4 bytes a CSR entry, 8 if a weight is not 1.
/// Self-loops and duplicates are dropped and counted; an undirected graph gets both directions of
/// every edge.
class GraphBuilder {
 public:
  /// Throws Error(resource) for 2^31 or more nodes and Error(bad_input) for a negative number.
  GraphBuilder(std::int64_t nodes, bool directed);

  void count(NodeId source, NodeId target, float weight = 1.0F) {
    ++listed_;
    if (source == target) {
      ++self_loops_;
      return;
    }
    weighted_ = weighted_ || weight != 1.0F;
    ++offsets_[static_cast<std::size_t>(target) + 1];
    if (!directed_) ++offsets_[static_cast<std::size_t>(source) + 1];
  }

  void start_filling();

  void add(NodeId source, NodeId target, float weight = 1.0F) {
    if (source == target) return;
    put(target, source, weight);
    if (!directed_) put(source, target, weight);
  }

  /// Sorts rows, drops duplicates and fills in these members of `counts`: nodes, edges_listed,
  /// self_loops, duplicates, entries and isolated (nodes without in- and out-neighbours). Throws
  /// Error(bad_input) that names `where` and an edge that was added with two weights.
  Graph finish(ImportCounts& counts, const std::string& where);

 private:
  void put(NodeId row, NodeId neighbour, float weight) {
    const auto i = static_cast<std::size_t>(offsets_[static_cast<std::size_t>(row)]++);
    neighbours_[i] = neighbour;
    if (weighted_) weights_[i] = weight;
  }

  std::int64_t nodes_;
  bool directed_;
  bool weighted_ = false;
  std::int64_t listed_ = 0;
  std::int64_t self_loops_ = 0;
  std::vector<std::int64_t> offsets_;
  std::vector<NodeId> neighbours_;
  std::vector<float> weights_;  ///< Of the entries of neighbours_; empty if all are 1.
};

/// The name of a list of edges that is not in a file.
inline constexpr const char* kEdgeList = "the list of edges";

/// Builds a graph with GraphBuilder. Calls `replay(use)` twice, which must call use(source, target)
/// or use(source, target, weight) for the same edges each time.
template <class Replay>
Graph build_graph(std::int64_t nodes, bool directed, ImportCounts& counts, const Replay& replay,
                  const std::string& where = kEdgeList) {
  GraphBuilder builder(nodes, directed);
  replay([&](NodeId u, NodeId v, float weight = 1.0F) { builder.count(u, v, weight); });
  builder.start_filling();
  replay([&](NodeId u, NodeId v, float weight = 1.0F) { builder.add(u, v, weight); });
  return builder.finish(counts, where);
}

/// The number of nodes without in- and out-neighbours.
std::int64_t count_isolated(const Graph& graph);

/// The undirected graph that has the edges of both `a` and `b`, which must have the same nodes,
/// without weights.
Graph unite(const Graph& a, const Graph& b);

/// The canonical graph of a list of edges, which is freed as soon as possible. Fills in `counts` as
/// GraphBuilder::finish does and throws as it does, and Error(bad_input) that names the first edge
/// (counted from 0) with a node outside [0, nodes).
Graph build_graph(std::int64_t nodes, EdgeList&& list, bool directed, ImportCounts& counts,
                  const std::string& where = kEdgeList);

}  // namespace heliograph
