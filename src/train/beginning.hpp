#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heliograph/log.hpp"
#include "heliograph/model.hpp"
#include "heliograph/options.hpp"
#include "train/checkpoint/manifest.hpp"
#include "train/plan/run_plan.hpp"

namespace heliograph {

/// What a run begins with, if not with random weights.
struct Beginning {
  std::optional<CheckpointManifest> resumed;
  std::optional<Model> weights;  ///< Of the checkpoint to resume, or those of TrainOptions.
};

/// Reads the weights to begin with and, to resume, the manifest of the checkpoint. Throws Error:
/// bad_input (a file is damaged), mismatch (the checkpoint belongs to another run).
Beginning read_beginning(GraphKind kind, const std::string& dataset_hash,
                         const TrainOptions& options);

/// The purpose of a plan to train: weights that a run begins with see the features as they were
/// normalised when they were trained. Warns of options with which they compute something else.
/// Throws Error(mismatch) if they do not fit the data set.
PlanPurpose purpose_of(const Beginning& beginning, const TrainOptions& options,
                       const LogCallback& log, std::int64_t feature_cols, Task task,
                       std::int32_t classes, const std::vector<std::string>& class_names);

}  // namespace heliograph
