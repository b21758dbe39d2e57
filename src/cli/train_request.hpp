#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/data_options.hpp"
#include "heliograph/options.hpp"
#include "train/options/fields.hpp"

namespace heliograph::cli {

/// Everything that `heliograph train` can be told, but for --config itself.
struct TrainRequest {
  DataOptions input;
  TrainOptions train;
  bool balance_train = false;
  std::string out;
  std::string summary;
  std::string resume;
  bool overwrite = false;
};

/// What decides a run's result: data and training. run.json saves these.
std::vector<OptionField<TrainRequest>> run_fields();

/// `run_fields`, then where results and messages go.
std::vector<OptionField<TrainRequest>> request_fields();

/// Reads a config file: an object keyed by flag names, or the run.json of an earlier run, whose
/// options are taken. Throws Error(usage) that names the file.
nlohmann::json read_config(const std::string& path);

/// Advice on combinations that are allowed and often disappoint.
std::vector<std::string> warnings(const TrainRequest& request);

}  // namespace heliograph::cli
