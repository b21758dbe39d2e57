#pragma once

#include <cstdint>
#include <vector>

#include "core/thread_pool.hpp"
#include "graph/canonical.hpp"
#include "graph/generate/labels.hpp"
#include "heliograph/generate.hpp"

namespace heliograph {

/// Draws nodes with a probability proportional to their weight, in constant time (Walker, 1977).
class WeightedNodes {
 public:
  /// `weight` is indexed by node; all weights are positive.
  WeightedNodes(std::vector<NodeId> nodes, const std::vector<float>& weight);

  /// The node that 64 random bits choose.
  NodeId pick(std::uint64_t bits) const {
    const Slot& slot = slots_[static_cast<std::size_t>(((bits >> 32) * slots_.size()) >> 32)];
    return static_cast<float>(bits & 0xffffffU) < slot.threshold ? slot.node : slot.alias;
  }
  std::size_t size() const { return slots_.size(); }

 private:
  struct Slot {
    float threshold;  ///< Of 2^24.
    NodeId node;
    NodeId alias;
  };
  std::vector<Slot> slots_;
};

/// The degree-corrected block model. One end is drawn by weight; the other, with probability
/// `homophily`, by weight among the nodes that share a label of the first, else among all
/// (multi-class: all of another class).
class BlockEdges {
 public:
  BlockEdges(const GenerateOptions& options, const LabelLists& labels);
  /// Edge number `index`: a pure function. Both ends are equal where no other end was found.
  Edge draw(std::uint64_t index) const;

 private:
  const LabelLists& labels_;
  double homophily_;
  bool other_class_;
  int candidates_;  ///< Nodes drawn through a label, of which the one with most in common stays.
  std::uint64_t stream_;
  std::vector<WeightedNodes> members_;  ///< By class.
  std::vector<WeightedNodes> all_;      ///< One element.
};

/// R-MAT over the places of `labels`.
class RmatEdges {
 public:
  RmatEdges(const GenerateOptions& options, const LabelLists& labels);
  Edge draw(std::uint64_t index) const;

 private:
  const LabelLists& labels_;
  int levels_;
  std::uint32_t a_, ab_, abc_;  ///< Running shares of 2^32.
  std::uint64_t stream_;
};

/// The undirected graph of `options.edges` edges, within 0.1 per cent where the model can yield
/// them: what duplicates take away is drawn again, round after round, until a round brings little.
Graph draw_graph(const GenerateOptions& options, const LabelLists& labels, ThreadPool& pool);

}  // namespace heliograph
