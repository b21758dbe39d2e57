#include "graph/partition/node_order.hpp"

#include <algorithm>
#include <numeric>

#include "core/noise.hpp"
#include "graph/rows.hpp"

namespace heliograph {
namespace {

/// The most rounds of label propagation: later ones move few nodes and take as long.
constexpr int kRounds = 3;
/// A round that moves fewer than one node in this many is the last.
constexpr std::int64_t kSettled = 100;
/// The number of rows in a gather block.
constexpr double kBlockNodes = 1024;
/// A graph is dense if its rows have more than this many entries in each gather block.
constexpr double kDense = 8;

/// Label propagation with limited cluster sizes: each round moves every node to the label that most
/// of its neighbours have.
class LabelPropagation {
 public:
  LabelPropagation(const Graph& graph, std::int64_t most_nodes)
      : graph_(graph),
        most_nodes_(most_nodes),
        label_(at(graph.nodes)),
        size_(at(graph.nodes), 1),
        votes_(at(graph.nodes), 0) {
    std::iota(label_.begin(), label_.end(), 0);
  }

  /// Visits every node once and returns the number of nodes that moved.
  std::int64_t round() {
    std::int64_t moved = 0;
    for (std::int64_t v = 0; v < graph_.nodes; ++v) {
      const std::int32_t own = label_[at(v)];
      const std::int32_t chosen = choose(v, own);
      if (chosen == own) continue;
      --size_[at(own)];
      ++size_[at(chosen)];
      label_[at(v)] = chosen;
      ++moved;
    }
    return moved;
  }

  std::vector<std::int32_t> take() { return std::move(label_); }

 private:
  /// The label that node v moves to. A tie goes to the node's own label, then to the label found
  /// first.
  std::int32_t choose(std::int64_t v, std::int32_t own) {
    voted_.clear();
    for (const NodeId u : neighbours_of(graph_, static_cast<NodeId>(v))) {
      const std::int32_t label = label_[at(u)];
      if (votes_[at(label)]++ == 0) voted_.push_back(label);
    }
    std::int32_t best = own;
    std::int32_t most = votes_[at(own)];
    for (const std::int32_t label : voted_) {
      if (votes_[at(label)] > most && size_[at(label)] < most_nodes_) {
        best = label;
        most = votes_[at(label)];
      }
      votes_[at(label)] = 0;
    }
    return best;
  }

  const Graph& graph_;
  std::int64_t most_nodes_;
  std::vector<std::int32_t> label_;  ///< The label of each node.
  std::vector<std::int32_t> size_;   ///< How many nodes have each label.
  std::vector<std::int32_t> votes_;  ///< Votes for each label; all 0 between nodes.
  std::vector<std::int32_t> voted_;  ///< The labels with votes.
};

std::vector<NodeId> random_order(std::int64_t nodes) {
  std::vector<NodeId> order(at(nodes));
  std::iota(order.begin(), order.end(), 0);
  // The mixer is a bijection, so there are no ties.
  std::sort(order.begin(), order.end(), [](NodeId a, NodeId b) {
    return mix64(static_cast<std::uint64_t>(a)) < mix64(static_cast<std::uint64_t>(b));
  });
  return order;
}

/// Orders clusters by their first node and the nodes of a cluster by id (a counting sort).
std::vector<NodeId> by_cluster(const std::vector<std::int32_t>& label) {
  std::vector<std::int32_t> size(label.size(), 0);
  for (const std::int32_t l : label) ++size[at(l)];
  std::vector<std::int32_t> next(label.size(), -1);
  std::vector<NodeId> order(label.size());
  std::int32_t begin = 0;
  for (std::size_t v = 0; v < label.size(); ++v) {
    std::int32_t& position = next[at(label[v])];
    if (position < 0) {
      position = begin;
      begin += size[at(label[v])];
    }
    order[at(position++)] = static_cast<NodeId>(v);
  }
  return order;
}

}  // namespace

NodeOrder resolve_order(const Graph& graph, NodeOrder order) {
  if (order != NodeOrder::automatic) return order;
  // In a dense graph a row has several entries in each gather block, whatever the order. Entries
  // with weights are not gathered in blocks.
  const bool dense =
      graph.edge_weights.empty() &&
      static_cast<double>(graph.entries()) * kBlockNodes >
          kDense * static_cast<double>(graph.nodes) * static_cast<double>(graph.nodes);
  return graph.nodes > kClusterNodes && !dense ? NodeOrder::cluster : NodeOrder::id;
}

std::vector<std::int32_t> cluster_nodes(const Graph& graph, std::int64_t most_nodes) {
  LabelPropagation labels(graph, most_nodes);
  for (int i = 0; i < kRounds; ++i) {
    if (labels.round() * kSettled < graph.nodes) break;
  }
  return labels.take();
}

std::vector<NodeId> order_nodes(const Graph& graph, NodeOrder order) {
  switch (resolve_order(graph, order)) {
    case NodeOrder::random:
      return random_order(graph.nodes);
    case NodeOrder::cluster:
      return by_cluster(cluster_nodes(graph, kClusterNodes));
    default:
      return {};
  }
}

}  // namespace heliograph
