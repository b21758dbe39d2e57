#pragma once

#include <cstdint>
#include <string>

#include "heliograph/dataset.hpp"

namespace heliograph {

/// The most classes that a data set may have. A larger class id is taken for a mistake.
inline constexpr std::int64_t kMaxClasses = 65536;

/// Check one part of a data set for `nodes` nodes, in linear time. Throw Error(bad_input) that
/// names `where` (a file or folder), and Error(resource) for 2^31 nodes or more. `needs_labels`:
/// whether a node must have a label.
void validate_graph(const Graph& graph, const std::string& where);
void validate_features(const Features& features, std::int64_t nodes, const std::string& where);
void validate_labels(const Labels& labels, std::int64_t nodes, const std::string& where,
                     bool needs_labels);

/// Checks in linear time that an undirected graph, whose rows are valid, lists every edge in both
/// rows with one weight. Throws Error(bad_input) that names `where` (a file or folder) and the
/// first offending nodes.
void validate_symmetry(const Graph& graph, const std::string& where);

/// Whether a node has a label, whatever the sizes of the arrays.
bool any_labelled(const Labels& labels);

/// Checks everything else that `validate` does, and names `where` (a file or folder) in its place.
/// `needs_labels`: whether a node must have a label.
void validate_dataset(const Dataset& dataset, const std::string& where, bool needs_labels = true);

}  // namespace heliograph
