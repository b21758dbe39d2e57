#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/log.hpp"

namespace heliograph {

/// The format of an input (docs/formats.md).
enum class InputFormat : std::uint8_t {
  automatic,   ///< Detected from the files at the path.
  native,      ///< A directory written by `save_native`.
  npz,         ///< A NumPy archive as cora.npz (CSR matrices) or tolokers.npz (edge list).
  musae,       ///< A directory with edges.csv, features.json and target.csv, or NAME_edges.csv ...
  edge_list,   ///< edges.csv or edges.tsv with features.npy, labels.npy and masks.
  graphsaint,  ///< A directory with adj_full.npz, feats.npy, class_map.json and role.json.
  ogb,         ///< A directory with raw/ and split/ of the Open Graph Benchmark.
  dgl_reddit,  ///< A directory with reddit_graph.npz and reddit_data.npz.
  graphland,   ///< A directory with edgelist.csv, features.csv, targets.csv and info.yaml.
  wikics,      ///< A directory with data.json of Wiki-CS.
  matrix_market,  ///< graph.mtx or another .mtx with features.npy or .mtx, labels.npy and masks.
  facebook100,    ///< A MAT-file with the variables A and local_info.
  metis,          ///< graph.graph or another .graph with the same files as matrix_market.
};

/// The format that `automatic` finds at `path`. Throws Error(bad_input) if it finds none.
InputFormat detect_format(const std::filesystem::path& path);

/// Whether data of this format may have several targets, of which ImportOptions::target is one.
bool has_targets(InputFormat format);

struct ImportOptions {
  InputFormat format = InputFormat::automatic;
  bool keep_direction = false;  ///< False: every edge counts in both directions.
  bool ignore_weights = false;  ///< Whether every edge has weight 1, whatever the input says.
  bool regression = false;      ///< Labels are numbers to predict, not classes.
  int index_base = -1;          ///< Number of the first node, 0 or 1; edge lists need it, .npz: 0.
  std::string target;           ///< What to predict, where data have several; empty: their default.
  /// False: an input without labels has unlabelled nodes only. Forms of several files with a file
  /// of labels among them need it, be all its values missing.
  bool requires_labels = true;
  /// False: if the masks or lists of a split are wrong, that is a warning, and the data set gets no
  /// split. Then another split must be drawn.
  bool requires_splits = true;
  LogCallback log;
};

/// Counts of the steps that make an input canonical; `import` prints them.
struct ImportCounts {
  std::int64_t nodes = 0;
  std::int64_t edges_listed = 0;  ///< Edges in the file.
  std::int64_t self_loops = 0;    ///< Self-loops, which are dropped.
  std::int64_t duplicates = 0;    ///< Dropped duplicates; if undirected, also reversed edges.
  std::int64_t entries = 0;       ///< CSR entries of the graph.
  std::int64_t isolated = 0;      ///< Nodes without neighbours, which are kept.
  std::int64_t unlabelled = 0;    ///< Nodes without a label.
  float least_weight = 1, most_weight = 1;  ///< Of the weights of edges; 1 if there are none.
};

/// Reads a data set in any supported format and validates it. A native directory is memory-mapped.
/// Throws Error: bad_input (names the file and the fault), usage (`index_base` is missing;
/// `target` is not one of the data's), resource (2^31 or more nodes).
Dataset load_dataset(const std::filesystem::path& path, const ImportOptions& options = {},
                     ImportCounts* counts = nullptr);

/// Makes a graph from a list of edges, `sources[i]` -> `targets[i]`, as import does: every edge
/// counts in both directions unless `directed`, and duplicates and self-loops are dropped.
/// `weights[i]` is the weight of edge i; none: all are 1. Needs 8 bytes a node and 4 bytes an
/// entry, 8 with weights. Throws Error: bad_input (lists of different lengths; the first edge with
/// a node outside [0, nodes) or a weight that is neither 0 nor a normal number; an edge with two
/// weights), resource (2^31 or more nodes).
Graph make_graph(std::int64_t nodes, std::span<const NodeId> sources,
                 std::span<const NodeId> targets, bool directed = false,
                 ImportCounts* counts = nullptr, std::span<const float> weights = {});
Graph make_graph(std::int64_t nodes, std::span<const std::int64_t> sources,
                 std::span<const std::int64_t> targets, bool directed = false,
                 ImportCounts* counts = nullptr, std::span<const float> weights = {});

/// Throws Error(usage) if `directory` exists, unless `overwrite` is given and it is an empty or a
/// native directory.
void check_native_target(const std::filesystem::path& directory, bool overwrite);

/// Writes a native directory (docs/formats.md) under a temporary name and renames it. Throws Error:
/// usage (see check_native_target), bad_input (an invalid data set), resource (disk full).
void save_native(const Dataset& dataset, const std::filesystem::path& directory,
                 bool overwrite = false);

/// Writes a NumPy archive with the names of PyTorch Geometric (docs/formats.md): edge_index with
/// every edge of an undirected graph both ways, x or the CSR arrays attr_data, attr_indices,
/// attr_indptr and attr_shape of sparse features, y, and, where the data set has them, edge_weight,
/// train_mask, val_mask, test_mask and class_names. `load_dataset` reads the same data set from it,
/// if it is told keep_direction for a directed graph and regression for numbers to predict. Needs
/// 16 bytes an entry. Throws Error: as `validate` does; usage (the file cannot be created, or a
/// split lacks nodes of a role), resource (disk full).
void save_npz(const Dataset& dataset, const std::filesystem::path& file);

/// The XXH64 of all arrays of the data set, as 16 hexadecimal digits.
std::string dataset_hash(const Dataset& dataset);

enum class Normalization : std::uint8_t { none, row, standard };

/// Mean and standard deviation of each feature column, which `standard` normalisation applies.
struct FeatureStatistics {
  std::vector<float> mean;
  /// 1 for a column that is constant up to rounding, which is centred but not scaled.
  std::vector<float> deviation;

  bool empty() const { return mean.empty(); }
  bool operator==(const FeatureStatistics&) const = default;
};

/// Mean and standard deviation of the training nodes' targets. A regression model predicts
/// (target - mean) / deviation.
struct TargetStatistics {
  double mean = 0, deviation = 1;

  bool operator==(const TargetStatistics&) const = default;
};

/// The statistics of the nodes with `fit_on[node] != 0`, or of all nodes if `fit_on` is empty.
/// Throws Error: usage (sparse features, `fit_on` of the wrong size or without a node), bad_input
/// (arrays that do not fit the features' size, a value that is not finite).
FeatureStatistics fit_features(const Features& features, const std::vector<std::uint8_t>& fit_on);

/// Normalises features. `row` divides each row by the sum of its absolute values. `standard`
/// subtracts `statistics.mean` and divides by `statistics.deviation`; with the statistics of the
/// same features, each column then has mean 0 and standard deviation 1. Throws Error: usage
/// (`standard` on sparse features), mismatch (statistics of another number of columns), bad_input
/// (unless `none`: arrays that do not fit the features' size, a value that is not finite).
Features normalize_features(const Features& features, Normalization normalization,
                            const FeatureStatistics& statistics = {});

}  // namespace heliograph
