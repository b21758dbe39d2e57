#pragma once

#include <cstdint>
#include <filesystem>

#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"

namespace heliograph {

/// Reads a square matrix that scipy.sparse.save_npz wrote as CSR or COO. Entry (i, j) is the edge
/// i -> j, whatever its value. Throws Error(bad_input) that names the file and the member,
/// and if it does not have `nodes` rows and columns.
Graph read_scipy_graph(const std::filesystem::path& file, std::int64_t nodes,
                       const ImportOptions& options, ImportCounts& counts);

}  // namespace heliograph
