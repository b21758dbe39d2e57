#pragma once

#include <filesystem>
#include <vector>

#include "graph/canonical.hpp"

namespace heliograph {

/// Reads a text file of edges, "source,target[,weight]" a line: commas in a .csv, tabs or blanks
/// in a .tsv. Empty lines, lines that start with # and one header line are skipped. Nodes are
/// numbered from `base`; weights other than 1 are counted in `counts.weights_ignored`.
/// Throws Error(bad_input) that names file and line.
std::vector<Edge> read_edge_file(const std::filesystem::path& file, int base, std::int64_t nodes,
                                 ImportCounts& counts);

}  // namespace heliograph
