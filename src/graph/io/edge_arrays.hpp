#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "graph/io/npy.hpp"
#include "heliograph/io.hpp"

namespace heliograph {

/// The ends of listed edges in one array or two, which are not copied.
class EdgeArrays {
 public:
  /// An array of shape (edges, 2), one edge a row, or (2, edges), sources above targets. If there
  /// are just two edges, `pairs` decides for the first shape. Throws Error(bad_input) that names
  /// the array.
  EdgeArrays(const NpyArray& array, bool pairs);
  /// Sources and targets, both of shape (edges,). `name` stands for both in messages.
  EdgeArrays(std::string name, NpyArray sources, NpyArray targets);

  const std::string& name() const { return name_; }
  std::int64_t count() const { return count_; }
  std::int64_t source(std::int64_t i) const { return sources_[i * step_]; }
  std::int64_t target(std::int64_t i) const { return targets_[shift_ + i * step_]; }

  /// The largest node; -1 if there are no edges.
  std::int64_t largest() const;

  /// The canonical graph of these edges between nodes that are numbered from `base`; without it,
  /// from 0, and --index-base does not apply. `weights` has one number for each edge, or none if
  /// all are 1. Throws Error(bad_input) that names the first node out of range, and as build_graph
  /// does with `where`.
  Graph graph(std::int64_t nodes, std::optional<int> base, std::span<const float> weights,
              const ImportOptions& options, ImportCounts& counts, const std::string& where) const;

 private:
  std::string name_;
  IntegerView sources_, targets_;
  std::int64_t count_ = 0, step_ = 1, shift_ = 0;
};

}  // namespace heliograph
