#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <variant>

#include "cli/command.hpp"
#include "cli/data_options.hpp"
#include "cli/progress.hpp"
#include "cli/resume.hpp"
#include "cli/text.hpp"
#include "cli/train_request.hpp"
#include "heliograph/error.hpp"
#include "heliograph/io.hpp"
#include "heliograph/model.hpp"
#include "heliograph/partition.hpp"
#include "train/checkpoint/model_file.hpp"
#include "train/export.hpp"
#include "train/options/values.hpp"
#include "train/plan/run_plan.hpp"
#include "train/run/output_file.hpp"
#include "train/run/output_path.hpp"
#include "train/run/run_directory.hpp"

namespace heliograph {
namespace cli {

/// Values of nodes come before weights, and what only the data set gives after them.
enum class Exported : std::uint8_t { predictions, logits, embeddings, weights, graph, partition };

}  // namespace cli

template <>
inline constexpr EnumName<cli::Exported> enum_names<cli::Exported>[] {
  {"predictions", cli::Exported::predictions}, {"logits", cli::Exported::logits},
      {"embeddings", cli::Exported::embeddings}, {"weights", cli::Exported::weights},
      {"graph", cli::Exported::graph}, {
    "partition", cli::Exported::partition
  }
};

namespace cli {
namespace {

namespace fs = std::filesystem;

struct ExportRequest {
  TrainRequest run;               ///< The data set, and the options of the run.
  std::string from;               ///< --run.
  std::optional<Exported> asked;  ///< --what.
  Exported what{};
  std::string to;
};

std::vector<OptionField<ExportRequest>> export_fields() {
  FieldTable<ExportRequest> fields;
  fields.group("Data");
  fields.add("run", "DIR",
             "The run directory to export from. Required but for the graph of --data.",
             HELIOGRAPH_MEMBER(from));
  fields.add_part(input_fields("The data set, if the run read shards or it is no longer where the "
                               "run read it, or without --run the one whose graph is exported."),
                  HELIOGRAPH_MEMBER(run.input));
  fields.group("Results");
  fields.add(
      "what", choices_text<Exported>(),
      "predictions: .csv with the predicted and the true class and the role of each node, or "
      ".npy. logits, embeddings: .npy, .csv, .safetensors. weights: .safetensors, .npz. "
      "graph: .npz with the names of PyTorch Geometric, and the run's split. partition: as "
      "partition --owners writes it. Required.",
      HELIOGRAPH_MEMBER(asked));
  fields.add("to", "FILE", "The file to write; its extension decides the form. Required.",
             HELIOGRAPH_MEMBER(to));
  fields.add("overwrite",
             "Replace --to if it is a .csv, .npy or partition, outside a data set's folder.",
             HELIOGRAPH_MEMBER(run.overwrite));
  fields.add_part(message_fields(), HELIOGRAPH_MEMBER(run.input));
  return fields.take();
}

struct Form {
  const char* extension;
  std::vector<Exported> holds;
  const FileKind* kind;  ///< What --overwrite replaces; null: nothing, as it may be an input.
};

/// Throws Error(usage) if the file has another extension than what it is to hold, could not be
/// written, or must not be replaced.
void require_target(const ExportRequest& request) {
  using enum Exported;
  const bool overwrite = request.run.overwrite;
  if (!request.from.empty() && RunDirectory::holds_as_own(request.from, request.to)) {
    throw Error(ErrorCode::usage,
                fmt::format("--to {} is a file of the run; choose another", request.to));
  }
  if (request.what == partition) {
    require_writable_partition("to", request.to, overwrite);
    return;
  }
  const Form forms[] = {{".csv", {predictions, logits, embeddings}, &kNodeTable},
                        {".npy",
                         {predictions, logits, embeddings},
                         request.what == predictions ? &kPredictionArray : &kRowArray},
                        {".npz", {weights, graph}, nullptr},
                        {".safetensors", {logits, embeddings, weights}, nullptr}};
  std::vector<std::string> fitting;
  for (const Form& form : forms) {
    if (std::ranges::count(form.holds, request.what) == 0) continue;
    if (fs::path(request.to).extension() == form.extension) {
      std::error_code ignored;
      if (form.kind == nullptr && fs::exists(request.to, ignored)) {
        throw Error(ErrorCode::usage,
                    fmt::format("--to {} exists, and it may be a data set or weights: export never "
                                "replaces a {} file, so choose another name",
                                request.to, form.extension));
      }
      require_writable(
          {"to", request.to, form.kind != nullptr ? *form.kind : kRowArray, overwrite});
      return;
    }
    fitting.emplace_back(form.extension);
  }
  const std::string name = choice_name(request.what);
  throw Error(ErrorCode::usage, fmt::format("--to {}: {} {} written as {}", request.to, name,
                                            name == "graph" ? "is" : "are", listed(fitting)));
}

/// Reads the options of the run, if there is one, and the data set, which must be the run's.
Dataset load_data(ExportRequest& request, const Arguments<ExportRequest>& arguments,
                  const RunConfig& run, Progress& progress) {
  DataOptions& input = request.run.input;
  if (!request.from.empty()) {
    apply_run(request.from, {}, request.run, [&] { arguments.apply(request); });
  }
  require_text(input.data, "data", "the path of a data set");
  refuse_shards(input);
  refuse_flags_of_edge_lists(input, arguments.given());
  input.requires_splits =
      request.from.empty() || std::holds_alternative<GivenSplit>(request.run.train.split);
  if (!request.from.empty() && !run.dataset_hash.is_string()) {
    throw Error(ErrorCode::bad_input, fmt::format("{}: the hash of its data set is missing",
                                                  (fs::path(request.from) / "run.json").string()));
  }
  Dataset dataset = load(input, progress);
  if (!request.from.empty() && run.dataset_hash != dataset_hash(dataset)) {
    throw Error(ErrorCode::mismatch,
                fmt::format("{} is not the data set of the run in {}: their hashes differ",
                            input.data, request.from));
  }
  return dataset;
}

void export_values(const ExportRequest& request, const std::optional<NodeValues>& kept,
                   const std::optional<Dataset>& dataset, Progress& progress) {
  const bool headed =
      request.what == Exported::logits && fs::path(request.to).extension() == ".csv";
  const bool table =
      request.what == Exported::predictions && fs::path(request.to).extension() == ".csv";
  std::error_code ignored;
  std::optional<Model> model;
  if (!kept || headed || (table && fs::exists(fs::path(request.from) / kBestFile, ignored))) {
    model = Model::load(request.from);
  }
  if (table && model) require_same_classes(*model, request.from, dataset->class_names);
  std::optional<NodeValues> values = kept;
  if (!values) {
    progress.phase("computing " + choice_name(request.what));
    values = computed_values(*model, *dataset, choice_name(request.what), progress.callback());
  }
  progress.phase("writing " + request.to);
  if (table) {
    write_prediction_table(request.to, *values, *dataset,
                           make_split(*dataset, request.run.train.split));
  } else {
    write_values(request.to, *values, headed ? model->class_names : std::vector<std::string>());
  }
}

void export_partition(const ExportRequest& request, const Dataset& dataset, const RunConfig& run,
                      Progress& progress) {
  const PartitionOptions cut = cut_of(request.run.train);
  const bool from_file = cut.partitioner == Partitioner::file;
  if (std::error_code ignored; from_file && !fs::exists(cut.file, ignored)) {
    throw Error(ErrorCode::bad_input,
                fmt::format("the partition of the run in {} was read from {}, which does not exist",
                            request.from, cut.file.string()));
  }
  Split split;
  if (cut.balance_train) split = make_split(dataset, request.run.train.split);
  progress.phase("cutting into " + counted(cut.parts, "part"));
  const Partition partition = make_partition(dataset.graph, cut, progress.callback(), &split);
  if (from_file && run.partition_hash.is_string() &&
      run.partition_hash != partition_hash(partition)) {
    throw Error(ErrorCode::mismatch,
                fmt::format("{} is not the partition of the run in {}: their hashes differ",
                            cut.file.string(), request.from));
  }
  if (run.partition_hash != partition_hash(partition)) {
    throw Error(ErrorCode::mismatch,
                fmt::format("the options of the run in {} do not make its partition again, as if "
                            "it has not ended or trained on shards: heliograph partition --owners "
                            "FILE writes one",
                            request.from));
  }
  write_partition(partition, request.to);
}

int run_export(const Arguments<ExportRequest>& arguments) {
  using enum Exported;
  ExportRequest request;
  arguments.apply(request);
  if (!request.asked) require_text("", "what", choices_text<Exported>().c_str());
  request.what = *request.asked;
  require_text(request.to, "to", "the file to write");
  if (request.from.empty() && (request.what != graph || request.run.input.data.empty())) {
    const bool cuts = request.what == partition;
    throw Error(ErrorCode::usage,
                fmt::format("--run is required: the run whose {} {} exported{}",
                            choice_name(request.what), request.what < graph ? "are" : "is",
                            cuts ? "; heliograph partition --owners FILE cuts a data set" : ""));
  }
  require_target(request);
  RunConfig run;
  if (!request.from.empty()) {
    RunDirectory::of(request.from);
    if (!RunDirectory::holds_run(request.from)) {
      throw Error(
          ErrorCode::bad_input,
          fmt::format("--run {} is no run directory: it has no run.json of a run", request.from));
    }
    run = read_run_json((fs::path(request.from) / "run.json").string());
  }
  Progress progress(0, request.run.input.quiet, request.run.input.log_level);
  const bool of_nodes = request.what < weights;
  const auto kept = of_nodes ? kept_values(request.from, choice_name(request.what)) : std::nullopt;
  // A table of predictions needs labels and split, and values that were not kept are computed.
  const bool needs_data =
      request.what > weights ||
      (of_nodes && (!kept || (request.what == predictions && request.to.ends_with(".csv"))));
  std::optional<Dataset> dataset;
  if (needs_data) dataset = load_data(request, arguments, run, progress);
  if (of_nodes) {
    export_values(request, kept, dataset, progress);
  } else if (request.what == weights) {
    write_weights(request.to, Model::load(request.from));
  } else if (request.what == partition) {
    export_partition(request, *dataset, run, progress);
  } else {
    if (!request.from.empty()) dataset->splits = {make_split(*dataset, request.run.train.split)};
    save_npz(*dataset, request.to);
  }
  progress.finish();
  if (request.run.input.quiet) return 0;
  const std::string text = two_columns({{choice_name(request.what), "written to " + request.to}});
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace

Command export_command() {
  return with_fields<ExportRequest>(
      {"export", "Write results of a run, or a graph, for other programs.",
       " --run DIR --what WHAT --to FILE [options]",
       "Examples:\n"
       "  heliograph export --run runs/one-bit --what predictions --to predictions.csv\n"
       "  heliograph export --run runs/one-bit --what embeddings --to embeddings.npy\n"
       "  heliograph export --run runs/one-bit --what weights --to weights.npz\n"
       "  heliograph export --run runs/one-bit --what partition --to graph.part.4\n"
       "  heliograph export --data graph/ --what graph --to graph.npz\n"
       "Logits and embeddings that the run did not keep (--save-logits, --save-embeddings) are\n"
       "computed by its weights on one rank."},
      export_fields(), run_export);
}

}  // namespace cli
}  // namespace heliograph
