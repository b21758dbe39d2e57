#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "graph/canonical.hpp"
#include "graph/io/array_source.hpp"
#include "graph/io/parts.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"

// Readers, one for each input format. Each throws Error(bad_input) that names the file. A reader
// neither validates the data set nor counts unlabelled nodes: load_dataset does both.

namespace heliograph {

// Each form's is_...() tells whether a path has it, by the names of files (graph/io/forms.hpp).

bool is_npz(const std::filesystem::path& path);
/// Reads a NumPy archive with members as in cora.npz (CSR matrices) or tolokers.npz (a list of
/// edges).
Dataset read_npz_dataset(const std::filesystem::path& file, const ImportOptions& options,
                         ImportCounts& counts);

bool is_musae(const std::filesystem::path& path);
/// Reads NAME_edges.csv, NAME_features.json or NAME.json, and NAME_target.csv, or the same files
/// without NAME_, as MUSAE (Rozemberczki et al., 2021) publishes its graphs.
Dataset read_musae(const std::filesystem::path& directory, const ImportOptions& options,
                   ImportCounts& counts);

bool is_graphsaint(const std::filesystem::path& path);
/// Reads adj_full.npz, feats.npy, class_map.json and role.json as GraphSAINT (Zeng et al., 2020)
/// publishes its graphs. Weights of edges are not used. adj_train.npz is not read: it holds the
/// edges between training nodes.
Dataset read_graphsaint(const std::filesystem::path& directory, const ImportOptions& options,
                        ImportCounts& counts);

bool is_dgl_reddit(const std::filesystem::path& path);
/// Reads reddit_graph.npz, a SciPy matrix whose values are not used, and reddit_data.npz with the
/// members feature, label and node_types (1 training, 2 validation, 3 test), as DGL publishes
/// Reddit.
Dataset read_dgl_reddit(const std::filesystem::path& directory, const ImportOptions& options,
                        ImportCounts& counts);

bool is_ogb(const std::filesystem::path& path);
/// Reads node data of the Open Graph Benchmark (Hu et al., 2020) as its downloads unpack: raw/ with
/// tables (.csv.gz or .csv) or with data.npz and node-label.npz, and split/NAME/. Without features
/// of nodes, those are the mean of the features of their edges.
Dataset read_ogb(const std::filesystem::path& directory, const ImportOptions& options,
                 ImportCounts& counts);

bool is_graphland(const std::filesystem::path& path);
/// Reads features.csv, targets.csv, edgelist.csv, split_masks_*.csv and info.yaml as GraphLand
/// (Bazhenov et al., 2025) publishes its graphs, and prepares the features as its loaders do.
Dataset read_graphland(const std::filesystem::path& directory, const ImportOptions& options,
                       ImportCounts& counts);

bool is_wikics(const std::filesystem::path& path);
/// Reads data.json as Wiki-CS (Mernyei and Cangea, 2020) is published.
Dataset read_wikics(const std::filesystem::path& directory, const ImportOptions& options,
                    ImportCounts& counts);

bool is_edge_list(const std::filesystem::path& path);
/// Reads edges.csv or edges.tsv and the arrays beside it. `path` is that file or its directory.
Dataset read_edge_list(const std::filesystem::path& path, const ImportOptions& options,
                       ImportCounts& counts);

bool is_matrix_market(const std::filesystem::path& path);
/// Reads a .mtx file and the arrays beside it. `path` is the file, or a directory with graph.mtx or
/// with one .mtx file besides features.mtx.
Dataset read_matrix_market(const std::filesystem::path& path, const ImportOptions& options,
                           ImportCounts& counts);

bool is_facebook100(const std::filesystem::path& path);
/// Reads a MATLAB 5 MAT-file with the variables A and local_info, as Facebook100 (Traud et al.,
/// 2012) is published. Every entry of A is an edge, whatever its value.
Dataset read_facebook100(const std::filesystem::path& file, const ImportOptions& options,
                         ImportCounts& counts);

bool is_metis(const std::filesystem::path& path);
/// Reads a .graph file as METIS does, and the arrays beside it. `path` is the file, or a directory
/// with graph.graph or with one .graph file.
Dataset read_metis(const std::filesystem::path& path, const ImportOptions& options,
                   ImportCounts& counts);

/// Whether a directory has a manifest or the checksum of one.
bool is_native(const std::filesystem::path& directory);

/// Whether a directory holds a data set of any format, shards or a checkpoint; false if it cannot
/// be read.
bool holds_data(const std::filesystem::path& directory);

/// Maps a native directory and compares every checksum. Throws Error(bad_input) that names the file
/// which is missing, damaged or of another version.
Dataset load_native(const std::filesystem::path& directory);

// Functions that several readers share.

/// Reads a text file of edges, one "source,target[,weight]" a line. The first line decides what
/// separates fields: semicolons, else commas, else tabs or blanks. Skips empty lines, lines that
/// start with # or % and one header line, which names every field of a line.
/// Nodes are numbered from `base`, as many as `nodes` has rows; without `base`, from 0, and
/// --index-base does not apply. A line has two fields to `most_fields`; one without weight has
/// weight 1. Memory is reserved for `expected` edges, if the file can hold as many. Throws
/// Error(bad_input) that names the file and the line.
EdgeList read_edge_file(const std::filesystem::path& file, std::optional<int> base,
                        const RowCount& nodes, const ImportOptions& options,
                        std::size_t most_fields = 3, std::int64_t expected = 0);

/// The edges of a square coordinate matrix, whose entry (i, j) is the edge i -> j.
struct MarketEdges {
  std::int64_t nodes = 0;
  bool symmetric = false;
  EdgeList list;  ///< The listed entries; one triangle of a symmetric matrix.
};

/// Reads the edges of a MatrixMarket file: coordinate; pattern, real or integer; general or
/// symmetric. Throws Error(bad_input) that names the file and the line, and Error(resource) for
/// 2^31 or more nodes.
MarketEdges read_market_edges(const std::filesystem::path& file, const ImportOptions& options);

/// Reads a general MatrixMarket matrix as features: sparse for coordinate, with duplicates summed,
/// and dense for array. Throws as read_market_edges does.
Features read_market_features(const std::filesystem::path& file);

/// Throws Error(bad_input) unless there are labels beside `file` for `nodes` nodes or, if `options`
/// need no labels and there are none, dense features. A MatrixMarket header may claim any number,
/// so call this before allocating memory for it.
void check_claimed_nodes(const std::filesystem::path& file, std::int64_t nodes,
                         const ImportOptions& options = {});

/// The file with the graph, if `path` is that file or a directory with a file graph.EXTENSION or
/// with one file .EXTENSION besides features.EXTENSION. Throws Error(bad_input) otherwise.
std::filesystem::path graph_file_of(const std::filesystem::path& path, const char* extension);

/// Whether `path` is a file .EXTENSION or a directory with one besides features.EXTENSION.
bool has_graph_file(const std::filesystem::path& path, const char* extension);

/// Reads the features of a directory from one of `arrays` or from features.mtx. Throws
/// Error(bad_input) if the directory has neither or both.
Features read_side_features(const std::filesystem::path& directory, const ArraySource& arrays);

/// How many nodes the features from read_side_features are of.
RowCount rows_of_side_features(const std::filesystem::path& directory, const ArraySource& arrays,
                               const Features& features);

/// Reads labels and, if they exist, class names and splits, and logs which arrays were not read.
/// `dataset` must have its graph.
void read_targets(const ArraySource& arrays, const ImportOptions& options, Dataset& dataset);

/// Reads features and targets beside `file`, from which `dataset` has its graph.
void read_sides(const std::filesystem::path& file, const ImportOptions& options, Dataset& dataset);

}  // namespace heliograph
