#pragma once

#include <cstdint>
#include <string>

#include "heliograph/dataset.hpp"

namespace heliograph {

/// The most classes that a data set may have. A larger class id is taken for a mistake.
inline constexpr std::int64_t kMaxClasses = 65536;

/// Checks that an undirected graph lists every edge in both rows, in linear time and 8 bytes a
/// node. Throws Error(bad_input) that names `where` (a file or folder) and the first offending
/// nodes.
void validate_symmetry(const Graph& graph, const std::string& where);

/// Checks everything else that Dataset promises. Graph: valid offsets, strictly ascending rows,
/// neighbours in range, no self-loop. Features: a row for each node, finite values, sparse columns
/// in range and ascending. Labels: classes in range, indicators 0 or 1, at least one labelled node.
/// Class names: one for each class. Splits: a role for every node, none for unlabelled nodes, at
/// least one training node. Throws Error(bad_input) that names `where` (a file or folder) and the
/// first offender, and Error(resource) for 2^31 or more nodes.
void validate_dataset(const Dataset& dataset, const std::string& where);

}  // namespace heliograph
