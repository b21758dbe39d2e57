#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "heliograph/dataset.hpp"

namespace heliograph {

/// A nonnegative number as an index of a vector.
inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// The row of node v in the adjacency: its neighbours, ascending.
inline std::span<const NodeId> neighbours_of(const Graph& graph, NodeId v) {
  return graph.neighbours.span().subspan(at(graph.offsets[at(v)]), at(graph.degree(v)));
}

/// Sorts rows of a sparse matrix by column.
class EntrySorter {
 public:
  /// Sorts the entries [begin, end). `values` has one for each column, or none.
  void sort(std::vector<std::int32_t>& columns, std::vector<float>& values, std::size_t begin,
            std::size_t end) {
    if (values.empty()) {
      std::sort(columns.data() + begin, columns.data() + end);
      return;
    }
    entries_.clear();
    for (std::size_t i = begin; i < end; ++i) entries_.emplace_back(columns[i], values[i]);
    std::ranges::sort(entries_);
    for (const auto& entry : entries_) {
      std::tie(columns[begin], values[begin]) = entry;
      ++begin;
    }
  }

 private:
  std::vector<std::pair<std::int32_t, float>> entries_;  ///< Scratch.
};

}  // namespace heliograph
