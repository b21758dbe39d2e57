#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/generate.hpp"

namespace heliograph {

/// The true labels of every node, on which its edges and features depend: exactly one for
/// multi-class data, at least one for multi-label data.
class LabelLists {
 public:
  explicit LabelLists(const GenerateOptions& options);

  std::int64_t nodes() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  /// The true labels of node `v`, ascending.
  std::span<const std::int32_t> of(NodeId v) const {
    const auto i = static_cast<std::size_t>(v);
    return std::span(labels_).subspan(static_cast<std::size_t>(offsets_[i]),
                                      static_cast<std::size_t>(offsets_[i + 1] - offsets_[i]));
  }

  /// The labels of node `v` in the data set: its true labels or, by label noise, another node's.
  std::span<const std::int32_t> stated(NodeId v) const;

  /// The node at each position of the recursive matrix of R-MAT; empty for other models. Positions
  /// side by side share a class, and node numbers are independent of positions.
  std::span<const NodeId> node_at_position() const { return node_at_position_; }

 private:
  double noise_;
  std::uint64_t noise_stream_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int32_t> labels_;
  std::vector<NodeId> node_at_position_;
};

}  // namespace heliograph
