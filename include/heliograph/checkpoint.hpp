#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/log.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

/// A checkpoint is a directory that holds all that a run needs to go on (docs/checkpoints.md).
/// A folder of checkpoints holds them side by side, named by the epochs that had run.

/// What one whole checkpoint says of itself.
struct CheckpointInfo {
  std::filesystem::path path;
  int epochs = 0;  ///< That had run; the next one has this number.
  int ranks = 0;
  std::string dataset_name, dataset_hash, partition_hash;
  TrainOptions options;  ///< Of the run that saved it; its own CheckpointOptions are left out.
};

/// Reads the manifest of the checkpoint at `path`, and nothing else.
/// Throws Error: bad_input (missing or damaged: names file and field), mismatch (another format
/// version).
CheckpointInfo read_checkpoint(const std::filesystem::path& path);

/// Reads and checks every byte of the checkpoint at `path`. Throws as `read_checkpoint` does; the
/// sentence names the newest whole checkpoint before it in the same folder, if there is one.
CheckpointInfo verify_checkpoint(const std::filesystem::path& path);

/// The newest checkpoint in `folder`, whole or not; empty if there is none.
std::filesystem::path newest_checkpoint(const std::filesystem::path& folder);

/// Removes all checkpoints from `folder`, what an interrupted save has left included, and the
/// folder itself if nothing else lies there. Throws Error(resource) that names what stays.
void remove_checkpoints(const std::filesystem::path& folder);

/// Exact scores and predictions of the weights in a checkpoint.
struct EvaluationResult {
  Metric metric = Metric::accuracy;  ///< Never `automatic`.
  /// NaN: no such nodes in the split.
  double train_metric = 0, val_metric = 0, test_metric = 0;
  std::vector<std::int32_t> predictions;  ///< As in TrainResult, likewise `scores`.
  std::int32_t prediction_cols = 1;
  std::vector<float> scores;
};

/// Scores the weights of `checkpoint` on `dataset`, with any number of ranks: the model is that of
/// the checkpoint; split, metric, partition and transport are those of `options`.
/// Throws Error: as `verify_checkpoint`; mismatch (weights that do not fit the data set's features
/// or classes, or the options' model).
EvaluationResult evaluate(const Dataset& dataset, const TrainOptions& options,
                          const std::filesystem::path& checkpoint, const LogCallback& log = {});

}  // namespace heliograph
