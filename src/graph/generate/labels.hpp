#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/generate.hpp"

namespace heliograph {

/// The labels that drive the edges and features of every node: at least one each, ascending;
/// exactly one for multi-class.
class LabelLists {
 public:
  explicit LabelLists(const GenerateOptions& options);

  std::int64_t nodes() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  std::span<const std::int32_t> of(NodeId v) const {
    const auto i = static_cast<std::size_t>(v);
    return std::span(labels_).subspan(static_cast<std::size_t>(offsets_[i]),
                                      static_cast<std::size_t>(offsets_[i + 1] - offsets_[i]));
  }

  /// What the data set says: the labels of `v`, or with label noise those of another node.
  std::span<const std::int32_t> stated(NodeId v) const;

  /// R-MAT only, else empty: the node at each place of the recursive matrix. Neighbouring places
  /// share a class; node numbers say nothing about places.
  std::span<const NodeId> node_at_place() const { return node_at_place_; }

 private:
  double noise_;
  std::uint64_t noise_stream_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int32_t> labels_;
  std::vector<NodeId> node_at_place_;
};

}  // namespace heliograph
