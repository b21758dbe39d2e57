#pragma once

#include <filesystem>

#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"

namespace heliograph {

/// The features of a directory: features.npy (dense) or features.mtx (sparse, or dense where the
/// file is). Throws Error(bad_input) if neither or both lie there.
Features read_side_features(const std::filesystem::path& directory);

/// Fills labels from labels.npy and, where they exist, splits from train_mask.npy, val_mask.npy
/// and test_mask.npy or from train_index.npy, val_index.npy and test_index.npy. The graph comes
/// first.
void read_side_targets(const std::filesystem::path& directory, const ImportOptions& options,
                       Dataset& dataset);

}  // namespace heliograph
