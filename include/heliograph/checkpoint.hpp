#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/log.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

// A checkpoint is a directory with everything that a run needs to resume (docs/checkpoints.md). A
// folder of checkpoints holds several, each named by the number of epochs that had run.

/// The manifest of a checkpoint.
struct CheckpointInfo {
  std::filesystem::path path;
  int epochs = 0;  ///< How many epochs had run; also the number of the next epoch.
  int ranks = 0;
  std::string dataset_name, dataset_hash, partition_hash;
  TrainOptions options;  ///< The options of the run that saved it, without CheckpointOptions.
};

/// Reads only the manifest of the checkpoint at `path`. Throws Error: bad_input (missing or
/// damaged; names the file and the field), mismatch (another format version).
CheckpointInfo read_checkpoint(const std::filesystem::path& path);

/// Reads and checks every byte of the checkpoint at `path`. Throws as `read_checkpoint` does; the
/// message names the newest intact checkpoint before it in the same folder, if there is one.
CheckpointInfo verify_checkpoint(const std::filesystem::path& path);

/// The newest checkpoint in `folder`, which may be damaged; an empty path if there is none.
std::filesystem::path newest_checkpoint(const std::filesystem::path& folder);

/// Removes all checkpoints and the remains of interrupted saves from `folder`, and then `folder` if
/// it is empty. Throws Error(resource) that names what could not be removed.
void remove_checkpoints(const std::filesystem::path& folder);

/// Exact scores and predictions of the weights in a checkpoint.
struct EvaluationResult {
  Metric metric = Metric::accuracy;  ///< The metric of the scores, never `automatic`.
  /// Scores on the three sets of the split; NaN for a set without nodes.
  double train_metric = 0, val_metric = 0, test_metric = 0;
  std::vector<std::int32_t> predictions;  ///< Predictions as in TrainResult.
  std::int32_t prediction_cols = 1;
  std::vector<float> scores;  ///< Scores of class 1 as in TrainResult.
};

/// Scores the weights of `checkpoint` on `dataset` with any number of ranks. The checkpoint decides
/// the model; `options` decide split, metric, partition and transport. Throws Error: as
/// `verify_checkpoint`; mismatch (weights that do not fit the data set or the model in `options`).
EvaluationResult evaluate(const Dataset& dataset, const TrainOptions& options,
                          const std::filesystem::path& checkpoint, const LogCallback& log = {});

}  // namespace heliograph
