#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/data_options.hpp"
#include "heliograph/options.hpp"
#include "train/options/fields.hpp"
#include "train/options/given.hpp"

namespace heliograph::cli {

/// All options of `heliograph train` but --config.
struct TrainRequest {
  DataOptions input;
  TrainOptions train;
  std::string out;
  std::string summary;
  std::string resume;
  bool overwrite = false;
};

/// Options that decide the results of a run; run.json saves them.
std::vector<OptionField<TrainRequest>> run_fields();

/// `run_fields`, and options of checkpoints, results and messages.
std::vector<OptionField<TrainRequest>> request_fields();

/// Options keyed by flag names and, if they are those of a run, which are all that there are, the
/// directory in which it was started, to which its relative paths belong.
struct RunConfig {
  nlohmann::json options;
  bool of_run = false;
  std::filesystem::path began;
  nlohmann::json resumed_after;  ///< The number of epochs; null if the run was not resumed.
  nlohmann::json dataset_hash, partition_hash;  ///< Null where run.json has none.
};

/// Reads a config file, a JSON object keyed by flag names, or the options in an earlier run's
/// run.json, which a run directory also names. Throws Error(usage) that names the file, also if
/// an object in it has a key twice.
RunConfig read_config(const std::string& given);
/// The options in the run.json of a run that a flag names. Throws Error(bad_input) that names it.
RunConfig read_run_json(const std::string& path);

/// Advice on combinations of options that are allowed but rarely useful. `flag`: whether an option
/// is on the command line; of options without effect only those are named.
std::vector<std::string> warnings(const TrainRequest& request, const GivenOption& flag);

}  // namespace heliograph::cli
