#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"

namespace heliograph {

/// The source and target of a listed edge u -> v.
using Edge = std::pair<NodeId, NodeId>;

/// Throws Error(bad_input) that names edge `i`, counted from 0, unless its nodes are in [0, nodes).
void check_edge(std::int64_t i, std::int64_t source, std::int64_t target, std::int64_t nodes);

/// Builds a canonical graph (see Graph) from edges that the caller passes twice, so the list need
/// not be in memory: every edge goes to `count`; then, after `start_filling`, the same edges go to
/// `add` in any order. Needs 8 bytes a node and 4 bytes a CSR entry. Self-loops and duplicates are
/// dropped and counted; an undirected graph gets both directions of every edge.
class GraphBuilder {
 public:
  /// Throws Error(resource) for 2^31 or more nodes and Error(bad_input) for a negative number.
  GraphBuilder(std::int64_t nodes, bool directed);

  void count(NodeId source, NodeId target) {
    ++listed_;
    if (source == target) {
      ++self_loops_;
      return;
    }
    ++offsets_[static_cast<std::size_t>(target) + 1];
    if (!directed_) ++offsets_[static_cast<std::size_t>(source) + 1];
  }

  void start_filling();

  void add(NodeId source, NodeId target) {
    if (source == target) return;
    put(target, source);
    if (!directed_) put(source, target);
  }

  /// Sorts rows, drops duplicates and fills in these members of `counts`: nodes, edges_listed,
  /// self_loops, duplicates, entries and isolated (nodes without in- and out-neighbours).
  Graph finish(ImportCounts& counts);

 private:
  void put(NodeId row, NodeId neighbour) {
    neighbours_[static_cast<std::size_t>(offsets_[static_cast<std::size_t>(row)]++)] = neighbour;
  }

  std::int64_t nodes_;
  bool directed_;
  std::int64_t listed_ = 0;
  std::int64_t self_loops_ = 0;
  std::vector<std::int64_t> offsets_;
  std::vector<NodeId> neighbours_;
};

/// Builds a graph with GraphBuilder. Calls `replay(use)` twice, which must call use(source, target)
/// for the same edges each time.
template <class Replay>
Graph build_graph(std::int64_t nodes, bool directed, ImportCounts& counts, const Replay& replay) {
  GraphBuilder builder(nodes, directed);
  replay([&](NodeId u, NodeId v) { builder.count(u, v); });
  builder.start_filling();
  replay([&](NodeId u, NodeId v) { builder.add(u, v); });
  return builder.finish(counts);
}

/// The number of nodes without in- and out-neighbours.
std::int64_t count_isolated(const Graph& graph);

/// The undirected graph that has the edges of both `a` and `b`, which must have the same nodes.
Graph unite(const Graph& a, const Graph& b);

/// The canonical graph of a list of edges, which is freed as soon as possible. Fills in `counts` as
/// GraphBuilder::finish does. Throws Error(bad_input) that names the first edge (counted from 0)
/// with a node outside [0, nodes).
Graph build_graph(std::int64_t nodes, std::vector<Edge>&& edges, bool directed,
                  ImportCounts& counts);

}  // namespace heliograph
