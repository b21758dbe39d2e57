#pragma once

#include <filesystem>

#include "heliograph/dataset.hpp"
#include "heliograph/options.hpp"
#include "heliograph/partition.hpp"
#include "heliograph/train.hpp"

namespace heliograph {

/// Writes a data set in the parts that `partition` says, as `options` ask (split, normalisation,
/// inductive, node order), into a shard directory: one file a rank with its structure, features,
/// labels, roles and halo plan, and a manifest (docs/formats.md). One rank's part is in memory at a
/// time; a data set that is mapped from a native directory and not normalised needs no more beside
/// it than a few dozen bytes a node, a directed one its transpose. Temporary name first, then
/// renamed. Throws Error: usage (options; see check_shard_target), mismatch (a partition of another
/// graph), bad_input, resource (disk full).
void write_shards(const Dataset& dataset, const Partition& partition, const TrainOptions& options,
                  const std::filesystem::path& directory, bool overwrite = false);

/// Throws Error(usage) unless shards can be written there: nothing is there, an empty directory or,
/// with `overwrite`, other shards.
void check_shard_target(const std::filesystem::path& directory, bool overwrite);

/// True if the manifest of shards lies in the directory.
bool is_shards(const std::filesystem::path& directory);

/// As `train` on the data set that the shards were cut from: the same bits. Each rank reads its own
/// file only. What shaped the shards is taken from their manifest, whatever `options` hold.
/// Throws Error as `train` does; bad_input (a damaged file, by name); mismatch (a rank's file that
/// belongs to other shards).
TrainResult train_shards(const std::filesystem::path& directory, const TrainOptions& options,
                         const TrainCallbacks& callbacks = {});

}  // namespace heliograph
