#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/log.hpp"

namespace heliograph {

enum class InputFormat : std::uint8_t {
  automatic,      ///< From what lies at the path.
  native,         ///< A directory written by `save_native`.
  npz,            ///< NumPy archive as in cora.npz (CSR triples) or tolokers.npz (edge list).
  facebook,       ///< Directory with edges.csv, features.json, target.csv.
  edge_list,      ///< edges.csv / edges.tsv with features.npy, labels.npy, masks.
  matrix_market,  ///< graph.mtx (or any .mtx) with features.npy (or .mtx), labels.npy, masks.
};

struct ImportOptions {
  InputFormat format = InputFormat::automatic;
  bool keep_direction = false;  ///< Default: every edge is made to count both ways.
  int index_base = -1;          ///< 0 or 1, required for edge lists without a stated base.
  LogCallback log;
};

/// What canonicalisation did, printed by `import`.
struct ImportCounts {
  std::int64_t nodes = 0;
  std::int64_t edges_listed = 0;  ///< As in the file.
  std::int64_t self_loops = 0;    ///< Dropped.
  std::int64_t duplicates = 0;    ///< Dropped (a reverse listing counts if undirected).
  std::int64_t entries = 0;       ///< CSR entries that remain.
  std::int64_t isolated = 0;      ///< Nodes without any neighbour: kept.
  std::int64_t unlabelled = 0;
  std::int64_t weights_ignored = 0;  ///< Edge values other than 1 that were dropped.
};

/// Reads a data set from any supported form; the native one is memory-mapped.
/// Throws Error(bad_input) that names the file and what is wrong with it.
Dataset load_dataset(const std::filesystem::path& path, const ImportOptions& options = {},
                     ImportCounts* counts = nullptr);

/// Writes the native directory (docs/formats.md): temporary name first, then renamed.
/// Throws Error: usage (the directory exists and `overwrite` is false), resource (disk full).
void save_native(const Dataset& dataset, const std::filesystem::path& directory,
                 bool overwrite = false);

/// XXH64 over every array of the data set, as 16 hexadecimal digits.
std::string dataset_hash(const Dataset& dataset);

enum class Normalization : std::uint8_t { none, row, standard };

/// A random split of the labelled nodes by shares (which sum to at most 100), same on every
/// machine for the same seed. Stratified keeps each class's shares (multi-class only).
Split random_split(const Dataset& dataset, double train_share, double validation_share,
                   double test_share, std::uint64_t seed, bool stratified);

/// Features after normalisation. `row`: each row divided by its sum of absolute values.
/// `standard`: each column to zero mean and unit deviation, statistics from the nodes with
/// `fit_on[node] != 0` (empty: all nodes); dense features only.
/// Throws Error(usage) for `standard` on sparse features.
Features normalize_features(const Features& features, Normalization normalization,
                            const std::vector<std::uint8_t>& fit_on);

}  // namespace heliograph
