#pragma once

#include <filesystem>

#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"

// One function for each form of input. Each throws Error(bad_input) that names the file; none
// fills `unlabelled` or validates the whole, which load_dataset does for all of them.

namespace heliograph {

/// A NumPy archive with members as in cora.npz (CSR triples) or tolokers.npz (a list of edges).
Dataset read_npz_dataset(const std::filesystem::path& file, const ImportOptions& options,
                         ImportCounts& counts);

/// edges.csv, features.json and target.csv.
Dataset read_facebook(const std::filesystem::path& directory, const ImportOptions& options,
                      ImportCounts& counts);

/// edges.csv or edges.tsv (or that file itself) with arrays beside it.
Dataset read_edge_list(const std::filesystem::path& path, const ImportOptions& options,
                       ImportCounts& counts);

/// graph.mtx, the only other .mtx of a directory, or a .mtx itself, with arrays beside it.
Dataset read_matrix_market(const std::filesystem::path& path, const ImportOptions& options,
                           ImportCounts& counts);

}  // namespace heliograph
