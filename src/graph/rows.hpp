#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "heliograph/dataset.hpp"

namespace heliograph {

/// A nonnegative number as an index of a vector.
inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// The row of node v in the adjacency: its neighbours, ascending.
inline std::span<const NodeId> neighbours_of(const Graph& graph, NodeId v) {
  return graph.neighbours.span().subspan(at(graph.offsets[at(v)]), at(graph.degree(v)));
}

}  // namespace heliograph
