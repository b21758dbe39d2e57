#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "graph/canonical.hpp"
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

/// True if a manifest, or its checksum, lies in the directory.
bool is_native(const std::filesystem::path& directory);

/// Maps a native directory and verifies every checksum; load_dataset validates what it holds.
/// Throws Error(bad_input) that names the file which is missing, damaged or of another version.
Dataset load_native(const std::filesystem::path& directory);

// What several forms have in common.

/// Reads a text file of edges, "source,target[,weight]" a line: commas in a .csv, tabs or blanks
/// in a .tsv. Empty lines, lines that start with # and one header line are skipped. Nodes are
/// numbered from `base`; weights other than 1 are counted in `counts.weights_ignored`.
/// Throws Error(bad_input) that names file and line.
std::vector<Edge> read_edge_file(const std::filesystem::path& file, int base, std::int64_t nodes,
                                 ImportCounts& counts);

/// The edges of a square coordinate matrix: entry (i, j) is the edge i -> j.
struct MarketEdges {
  std::int64_t nodes = 0;
  bool symmetric = false;
  std::vector<Edge> edges;  ///< As listed: one triangle of a symmetric matrix.
};

/// Reads MatrixMarket text: coordinate; pattern, real or integer; general or symmetric. Values
/// other than 1 are counted in `counts.weights_ignored`.
/// Throws Error(bad_input) that names file and line.
MarketEdges read_market_edges(const std::filesystem::path& file, ImportCounts& counts);

/// Reads a general matrix as features: coordinate (sparse; duplicates are summed) or array (dense).
Features read_market_features(const std::filesystem::path& file);

/// Throws Error(bad_input) where `file` claims another number of nodes than labels.npy beside it
/// holds labels of. A MatrixMarket header is a line of text that may claim anything: this comes
/// before memory is taken for it.
void check_claimed_nodes(const std::filesystem::path& file, std::int64_t nodes);

/// The features of a directory: features.npy (dense) or features.mtx (sparse, or dense where the
/// file is). Throws Error(bad_input) if neither or both lie there.
Features read_side_features(const std::filesystem::path& directory);

/// Fills labels from labels.npy and, where they exist, splits from train_mask.npy, val_mask.npy
/// and test_mask.npy or from train_index.npy, val_index.npy and test_index.npy. The graph comes
/// first.
void read_side_targets(const std::filesystem::path& directory, const ImportOptions& options,
                       Dataset& dataset);

}  // namespace heliograph
