#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/data_options.hpp"
#include "heliograph/options.hpp"
#include "train/options/fields.hpp"

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

/// Reads a file of JSON. Throws Error(usage) that names the file.
nlohmann::json read_json(const std::string& path);

/// Options keyed by flag names and, if they are those of a run, the directory in which it was
/// started, to which its relative paths belong.
struct RunConfig {
  nlohmann::json options;
  std::filesystem::path began;
};

/// Reads a config file, a JSON object keyed by flag names, or the options in an earlier run's
/// run.json, which a run directory also names. Throws Error(usage) that names the file.
RunConfig read_config(const std::string& given);

/// Advice on combinations of options that are allowed but rarely useful.
std::vector<std::string> warnings(const TrainRequest& request);

}  // namespace heliograph::cli
