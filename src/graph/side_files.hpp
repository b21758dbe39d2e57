#pragma once

#include <filesystem>

#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"

namespace heliograph {

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
