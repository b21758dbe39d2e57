#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/progress.hpp"
#include "cli/train_request.hpp"
#include "heliograph/train.hpp"

namespace heliograph::cli {

/// If --data names shards, sets the options that are fixed in them, such as the number of ranks,
/// and returns a sentence for each value of a config file that this replaces. `given`: whether a
/// flag was given. For a data set it only refuses flags
/// that it has no use for. Throws Error: mismatch (a flag
/// contradicts the shards), usage (a flag makes no sense for shards), bad_input (a damaged
/// manifest).
std::vector<std::string> set_options_of_shards(TrainRequest& request, const GivenOption& given);

/// What --data names: a data set that this process loads, or shards, of which each rank reads its
/// own. Must outlive training and evaluation.
class TrainData {
 public:
  /// Loads a data set.
  TrainData(const TrainRequest& request, Progress& progress);

  std::string description() const;
  /// The member "dataset" of run.json.
  nlohmann::ordered_json manifest() const;
  TrainResult train(const TrainOptions& options, const TrainCallbacks& callbacks) const;
  EvaluationResult evaluate(const TrainOptions& options, const Model& model,
                            const LogCallback& log) const;

 private:
  std::filesystem::path shards_;  ///< Empty if --data names a data set.
  nlohmann::json shard_manifest_;
  Dataset dataset_;
};

}  // namespace heliograph::cli
