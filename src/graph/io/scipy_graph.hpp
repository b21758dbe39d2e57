#pragma once

#include "graph/io/npz.hpp"
#include "graph/io/parts.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"

namespace heliograph {

/// The nodes that a matrix of scipy.sparse.save_npz claims, which a short file may do for any
/// number. Throws Error(bad_input) that names the member if the matrix is not square.
RowCount rows_of_scipy_graph(const NpzArchive& archive);

/// Reads such a matrix in CSR or COO form. Entry (i, j) is the edge i -> j, whatever its value.
/// `nodes` are those of rows_of_scipy_graph, which other arrays must have confirmed. Throws
/// Error(bad_input) that names the file and the member.
Graph read_scipy_graph(const NpzArchive& archive, std::int64_t nodes, const ImportOptions& options,
                       ImportCounts& counts);

}  // namespace heliograph
