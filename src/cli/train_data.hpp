#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/progress.hpp"
#include "cli/train_request.hpp"
#include "heliograph/train.hpp"

namespace heliograph::cli {

/// Where `--data` names shards: takes from them what shaped them, the number of ranks included, and
/// returns a sentence for each value of a config file that this replaces. `given` says whether a
/// flag was. Does nothing where it names a data set.
/// Throws Error: mismatch (a flag contradicts the shards), usage (a flag makes no sense for
/// shards), bad_input (a damaged manifest).
std::vector<std::string> take_from_shards(TrainRequest& request,
                                          const std::function<bool(const std::string&)>& given);

/// What `--data` names: a data set in this process, or shards that each rank reads for itself.
/// Must outlive the training on it.
class TrainData {
 public:
  /// Loads a data set; its split balances the partition where the request asks for it, so
  /// request.train is good for as long as the object lives.
  TrainData(TrainRequest& request, Progress& progress);

  std::string description() const;
  /// What run.json says of it.
  nlohmann::ordered_json manifest() const;
  TrainResult train(const TrainOptions& options, const TrainCallbacks& callbacks) const;

 private:
  std::filesystem::path shards_;  ///< Empty: a data set.
  nlohmann::json shard_manifest_;
  Dataset dataset_;
  Split split_;
};

}  // namespace heliograph::cli
