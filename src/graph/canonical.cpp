#include "graph/canonical.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "core/throw_error.hpp"
#include "graph/edge_weights.hpp"
#include "graph/rows.hpp"

namespace heliograph {

namespace {

template <class Id>
Graph graph_of_ends(std::int64_t nodes, std::span<const Id> sources, std::span<const Id> targets,
                    bool directed, ImportCounts* counts, std::span<const float> weights) {
  if (sources.size() != targets.size()) {
    throw_error(ErrorCode::bad_input, "the edges have {} sources and {} targets", sources.size(),
                targets.size());
  }
  if (!weights.empty() && weights.size() != sources.size()) {
    throw_error(ErrorCode::bad_input, "there are {} edges and {} weights", sources.size(),
                weights.size());
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    check_edge(static_cast<std::int64_t>(i), sources[i], targets[i], nodes);
    if (!weights.empty() && !is_edge_weight(weights[i])) {
      throw_error(
          ErrorCode::bad_input,
          "edge {} ({} -> {}) has the weight {}, which is neither 0 nor a normal fp32 number", i,
          sources[i], targets[i], weights[i]);
    }
  }
  ImportCounts own;
  ImportCounts& filled = counts != nullptr ? *counts : own;
  Graph graph = build_graph(nodes, directed, filled, [&](auto&& use) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      use(static_cast<NodeId>(sources[i]), static_cast<NodeId>(targets[i]),
          weights.empty() ? 1.0F : weights[i]);
    }
  });
  count_weights(graph, filled);
  return graph;
}

}  // namespace

void check_edge(std::int64_t i, std::int64_t source, std::int64_t target, std::int64_t nodes) {
  if (source >= 0 && source < nodes && target >= 0 && target < nodes) return;
  throw_error(ErrorCode::bad_input, "edge {} ({} -> {}) names a node that is not in [0, {})", i,
              source, target, nodes);
}

GraphBuilder::GraphBuilder(std::int64_t nodes, bool directed) : nodes_(nodes), directed_(directed) {
  if (nodes < 0) throw_error(ErrorCode::bad_input, "a graph cannot have {} nodes", nodes);
  if (nodes > std::numeric_limits<NodeId>::max()) {
    throw_error(ErrorCode::resource, "{} nodes: a graph must have fewer than 2^31 nodes", nodes);
  }
  offsets_.assign(static_cast<std::size_t>(nodes) + 1, 0);
}

void GraphBuilder::start_filling() {
  for (std::size_t v = 1; v < offsets_.size(); ++v) offsets_[v] += offsets_[v - 1];
  neighbours_.resize(static_cast<std::size_t>(offsets_.back()));
  if (weighted_) weights_.resize(neighbours_.size());
}

Graph GraphBuilder::finish(ImportCounts& counts, const std::string& where) {
  // Filling has moved each row's offset to the end of the row.
  const auto n = static_cast<std::size_t>(nodes_);
  std::size_t row_begin = 0;
  std::size_t kept = 0;
  EntrySorter sorter;
  for (std::size_t v = 0; v < n; ++v) {
    const auto row_end = static_cast<std::size_t>(offsets_[v]);
    sorter.sort(neighbours_, weights_, row_begin, row_end);
    offsets_[v] = static_cast<std::int64_t>(kept);
    const std::size_t row_kept = kept;
    for (std::size_t i = row_begin; i < row_end; ++i) {
      if (kept == row_kept || neighbours_[kept - 1] != neighbours_[i]) {
        neighbours_[kept] = neighbours_[i];
        if (weighted_) weights_[kept] = weights_[i];
        ++kept;
      } else if (weighted_ && weights_[kept - 1] != weights_[i]) {
        throw_error(ErrorCode::bad_input,
                    "{}: the edge {} {} {} (nodes counted from 0) has the weights {} and {}: give "
                    "it one, or read it with --ignore-weights{}",
                    where, neighbours_[i], directed_ ? "->" : "-", v, weights_[kept - 1],
                    weights_[i],
                    directed_ ? ""
                              : spell_options("; if they are of opposite directions, "
                                              "--keep-direction keeps both"));
      }
    }
    row_begin = row_end;
  }
  offsets_[n] = static_cast<std::int64_t>(kept);
  // To give back a few dropped entries is not worth a second copy of the graph for a moment.
  const bool shrinks = kept < neighbours_.size() - neighbours_.size() / 8;
  neighbours_.resize(kept);
  if (shrinks) neighbours_.shrink_to_fit();
  if (weighted_) weights_.resize(kept);
  if (shrinks) weights_.shrink_to_fit();

  const auto entries = static_cast<std::int64_t>(kept);
  counts.nodes = nodes_;
  counts.edges_listed = listed_;
  counts.self_loops = self_loops_;
  counts.entries = entries;
  counts.duplicates = listed_ - self_loops_ - (directed_ ? entries : entries / 2);
  Graph graph{nodes_, directed_, std::move(offsets_), std::move(neighbours_), std::move(weights_)};
  counts.isolated = count_isolated(graph);
  return graph;
}

std::int64_t count_isolated(const Graph& graph) {
  std::vector<bool> is_source(graph.directed ? at(graph.nodes) : 0, false);
  if (graph.directed) {
    for (const NodeId u : graph.neighbours) is_source[at(u)] = true;
  }
  std::int64_t isolated = 0;
  for (NodeId v = 0; v < graph.nodes; ++v) {
    if (graph.degree(v) == 0 && !(graph.directed && is_source[at(v)])) ++isolated;
  }
  return isolated;
}

Graph unite(const Graph& a, const Graph& b) {
  std::vector<std::int64_t> offsets(a.offsets.size(), 0);
  std::vector<NodeId> neighbours;
  neighbours.reserve(a.neighbours.size() + b.neighbours.size());
  for (std::size_t v = 0; v + 1 < offsets.size(); ++v) {
    std::set_union(a.neighbours.begin() + a.offsets[v], a.neighbours.begin() + a.offsets[v + 1],
                   b.neighbours.begin() + b.offsets[v], b.neighbours.begin() + b.offsets[v + 1],
                   std::back_inserter(neighbours));
    offsets[v + 1] = static_cast<std::int64_t>(neighbours.size());
  }
  return {a.nodes, false, std::move(offsets), std::move(neighbours)};
}

Graph build_graph(std::int64_t nodes, EdgeList&& list, bool directed, ImportCounts& counts,
                  const std::string& where) {
  EdgeList held = std::move(list);
  GraphBuilder builder(nodes, directed);
  const auto weight = [&](std::size_t i) { return held.weights.empty() ? 1.0F : held.weights[i]; };
  for (std::size_t i = 0; i < held.edges.size(); ++i) {
    const auto [source, target] = held.edges[i];
    check_edge(static_cast<std::int64_t>(i), source, target, nodes);
    builder.count(source, target, weight(i));
  }
  builder.start_filling();
  for (std::size_t i = 0; i < held.edges.size(); ++i) {
    builder.add(held.edges[i].first, held.edges[i].second, weight(i));
  }
  held = {};
  return builder.finish(counts, where);
}

Graph make_graph(std::int64_t nodes, std::span<const NodeId> sources,
                 std::span<const NodeId> targets, bool directed, ImportCounts* counts,
                 std::span<const float> weights) {
  return graph_of_ends(nodes, sources, targets, directed, counts, weights);
}

Graph make_graph(std::int64_t nodes, std::span<const std::int64_t> sources,
                 std::span<const std::int64_t> targets, bool directed, ImportCounts* counts,
                 std::span<const float> weights) {
  return graph_of_ends(nodes, sources, targets, directed, counts, weights);
}

}  // namespace heliograph
