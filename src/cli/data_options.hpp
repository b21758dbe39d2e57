#pragma once

#include <string>
#include <vector>

#include "heliograph/io.hpp"
#include "heliograph/log.hpp"
#include "train/options/fields.hpp"
#include "train/options/given.hpp"

namespace heliograph::cli {

/// Where a command reads its data set, and which messages it prints.
struct DataOptions {
  std::string data;
  InputFormat format = InputFormat::automatic;
  int index_base = -1;
  bool keep_direction = false;
  bool ignore_weights = false;
  std::string target;
  bool requires_labels = true, requires_splits = true;  ///< As in ImportOptions.
  bool regression = false;
  bool quiet = false;
  LogLevel log_level = LogLevel::info;
};

/// --data, --format, --index-base, --keep-direction, --ignore-weights, --regression, --target.
/// `data`: what --help says of --data.
std::vector<OptionField<DataOptions>> input_fields(
    const char* data =
        "The data set: a native graph directory, or a file or directory that "
        "import reads. Required.");
/// Takes --data, --format, --index-base and --target out of the options of a run.
DataOptions take_reading(DataOptions& of_run);
/// Gives `input` those of a run that the user has not given. Other data than the run's are read as
/// these were if they have the same format, or if the run's are gone.
void give_reading(const DataOptions& of_run, DataOptions& input);

/// --quiet, --log-level.
std::vector<OptionField<DataOptions>> message_fields();

/// Throws Error(usage) if --data holds shards, for commands that need the data set itself.
void refuse_shards(const DataOptions& options);

/// Throws Error(usage) if a flag says how to read a list of edges, and --data is of a format that
/// needs none. `flag`: whether an option is on the command line.
void refuse_flags_of_edge_lists(const DataOptions& options, const GivenOption& flag);

class Progress;

/// Loads the data set, with messages to `progress`. Throws Error: usage without --data.
Dataset load(const DataOptions& options, Progress& progress, ImportCounts* counts = nullptr);

/// "cora: 2,708 nodes, 5,278 edges, 1,433 sparse features, 7 classes".
std::string describe(const Dataset& dataset);

/// Throws Error(usage) if `text` is empty: `--flag is required: what it is`.
void require_text(const std::string& text, const char* flag, const char* what);

}  // namespace heliograph::cli
