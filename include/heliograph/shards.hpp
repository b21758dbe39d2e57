#pragma once

#include <filesystem>

#include "heliograph/dataset.hpp"
#include "heliograph/log.hpp"
#include "heliograph/options.hpp"
#include "heliograph/train.hpp"

namespace heliograph {

/// Cuts a data set as `options` say (partition, split, normalisation, inductive, node order) and
/// writes a shard directory: one file a rank with its structure, features, labels, roles and halo
/// plan, and a manifest (docs/formats.md). One rank's part is in memory at a time; a data set that
/// was mapped from a native directory, with a partition from a file and without normalisation,
/// needs no more beside it than some 30 bytes a node (a directed one also its transpose).
/// Temporary name first, then renamed.
/// Throws Error: usage (options; the directory exists and is no shard directory, or `overwrite` is
/// false), bad_input, resource (disk full).
void write_shards(const Dataset& dataset, const TrainOptions& options,
                  const std::filesystem::path& directory, bool overwrite = false,
                  const LogCallback& log = {});

/// True if the manifest of shards lies in the directory.
bool is_shards(const std::filesystem::path& directory);

/// As `train` on the data set that the shards were cut from: the same bits. Each rank reads its own
/// file only. What shaped the shards is taken from their manifest, whatever `options` hold.
/// Throws Error as `train` does; bad_input (a damaged file, by name); mismatch (a rank's file that
/// belongs to other shards).
TrainResult train_shards(const std::filesystem::path& directory, const TrainOptions& options,
                         const TrainCallbacks& callbacks = {});

}  // namespace heliograph
