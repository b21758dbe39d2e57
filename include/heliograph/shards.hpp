#pragma once

#include <filesystem>

#include "heliograph/dataset.hpp"
#include "heliograph/options.hpp"
#include "heliograph/partition.hpp"
#include "heliograph/train.hpp"

namespace heliograph {

/// Cuts a data set into a shard directory (docs/formats.md) with a manifest and, for each rank, a
/// file of its structure, features, labels, roles and halo plan. `options` decide split,
/// normalisation (with the statistics of `init_from`, if it has any), inductive training and node
/// order; runs report their `partition` as what has cut the graph. Only one rank's part is in
/// memory at a time; if the data set is mapped and not normalised, the rest takes a few dozen bytes
/// a node, plus the transpose of a directed graph. The directory is written under a temporary name
/// and renamed. Throws Error: usage (options; see check_shard_target), mismatch (a partition of
/// another graph), bad_input, resource (disk full).
void write_shards(const Dataset& dataset, const Partition& partition, const TrainOptions& options,
                  const std::filesystem::path& directory, bool overwrite = false);

/// Throws Error(usage) if `directory` exists, unless it is empty or, with `overwrite`, holds other
/// shards.
void check_shard_target(const std::filesystem::path& directory, bool overwrite);

/// Whether a directory has the manifest of shards.
bool is_shards(const std::filesystem::path& directory);

/// Trains on shards, with the same bits as `train` on the data set that they were cut from. Each
/// rank reads only its own file. The options that shaped the shards come from their manifest, not
/// from `options`. Throws Error as `train` does; bad_input (names a damaged file); mismatch (a
/// rank's file belongs to other shards).
TrainResult train_shards(const std::filesystem::path& directory, const TrainOptions& options,
                         const TrainCallbacks& callbacks = {});

}  // namespace heliograph
