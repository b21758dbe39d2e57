#pragma once

#include <cstdint>
#include <string>

#include "heliograph/dataset.hpp"

namespace heliograph {

/// Class ids stop here: a larger label is taken for a mistake, not for a wide output layer.
inline constexpr std::int64_t kMaxClasses = 65536;

/// All throw Error(bad_input) with `where` (a file or folder) and the first offender in the
/// sentence.

/// An undirected graph lists every edge in both rows. Linear, 8 bytes a node.
void validate_symmetry(const Graph& graph, const std::string& where);

/// The graph: offsets that rise from 0, rows that ascend strictly, no self-loop, neighbours in
/// range. Features: a row for each node, finite values, sparse columns in range and ascending.
/// Labels: classes in range, indicators 0 or 1, at least one labelled node. Class names, and
/// splits: a role for every node, none for the unlabelled, and at least one training node.
void validate_dataset(const Dataset& dataset, const std::string& where);

}  // namespace heliograph
