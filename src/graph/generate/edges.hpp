#pragma once

#include <cstdint>
#include <vector>

#include "core/thread_pool.hpp"
#include "graph/canonical.hpp"
#include "graph/generate/labels.hpp"
#include "heliograph/generate.hpp"

namespace heliograph {

/// Draws nodes with probability proportional to their weight in constant time, by the alias method
/// (Walker, 1977).
class WeightedNodes {
 public:
  /// `weight` is indexed by node; all weights are positive.
  WeightedNodes(std::vector<NodeId> nodes, const std::vector<float>& weight);

  /// The node that these 64 random bits select.
  NodeId pick(std::uint64_t bits) const {
    const Slot& slot = slots_[static_cast<std::size_t>(((bits >> 32) * slots_.size()) >> 32)];
    return static_cast<float>(bits & 0xffffffU) < slot.threshold ? slot.node : slot.alias;
  }
  std::size_t size() const { return slots_.size(); }

 private:
  struct Slot {
    float threshold;  ///< The probability of `node` times 2^24.
    NodeId node;
    NodeId alias;
  };
  std::vector<Slot> slots_;
};

/// The degree-corrected stochastic block model (Karrer and Newman, 2011). The first end of an edge
/// is drawn by weight. With probability `homophily` the second is drawn by weight among the nodes
/// that share a label with the first, else among all nodes (multi-class: all nodes of other
/// classes).
class BlockEdges {
 public:
  BlockEdges(const GenerateOptions& options, const LabelLists& labels);
  /// Edge number `index`, a pure function of the options and the index. If no second end was found,
  /// both ends are the same node.
  Edge draw(std::uint64_t index) const;

 private:
  const LabelLists& labels_;
  double homophily_;
  bool other_class_;
  /// How many nodes with a shared label are drawn; the one with most labels in common is taken.
  int candidates_;
  std::uint64_t stream_;
  std::vector<WeightedNodes> members_;  ///< The nodes of each class.
  std::vector<WeightedNodes> all_;      ///< One element: all nodes.
};

/// The recursive matrix model R-MAT (Chakrabarti et al., 2004) over the positions of `labels`.
class RmatEdges {
 public:
  RmatEdges(const GenerateOptions& options, const LabelLists& labels);
  Edge draw(std::uint64_t index) const;

 private:
  const LabelLists& labels_;
  int levels_;
  std::uint32_t a_, ab_, abc_;  ///< Cumulated quadrant probabilities times 2^32.
  std::uint64_t stream_;
};

/// Draws an undirected graph of `options.edges` edges, within 0.1 per cent if the model can yield
/// as many. Rounds of further draws replace duplicates until a round adds few edges.
Graph draw_graph(const GenerateOptions& options, const LabelLists& labels, ThreadPool& pool);

}  // namespace heliograph
