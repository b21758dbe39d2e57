#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <system_error>

#include "cli/command.hpp"
#include "cli/process_run.hpp"
#include "cli/progress.hpp"
#include "cli/resume.hpp"
#include "cli/signals.hpp"
#include "cli/text.hpp"
#include "cli/train_data.hpp"
#include "cli/train_request.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/error.hpp"
#include "heliograph/model.hpp"
#include "heliograph/shards.hpp"
#include "train/checkpoint/manifest.hpp"
#include "train/options/json.hpp"
#include "train/options/values.hpp"
#include "train/run/output_file.hpp"
#include "train/run/output_path.hpp"
#include "train/run/run_directory.hpp"

namespace heliograph::cli {
namespace {

namespace fs = std::filesystem;
constexpr const char* kResultsFile = "eval.json";

/// The options of eval: those of train that apply to scoring, and files for single outputs.
struct EvalRequest {
  TrainRequest run;
  std::string weights;     ///< --checkpoint.
  std::string trained_on;  ///< The split of the weights' run and its seed; empty if not known.
  std::string data_hash;   ///< Of the run's data, if these are scored; empty if not known.
  std::string logits, embeddings;
};

std::vector<OptionField<EvalRequest>> eval_fields() {
  FieldTable<EvalRequest> fields;
  fields.group("Data");
  fields.add("checkpoint", "PATH",
             "The weights to score: a run directory, for those of its best epoch "
             "(best.safetensors); a checkpoint, for those of its last epoch; or a .safetensors "
             "file. Required. Other options default to those of the run that wrote it, whose "
             "directory it is or lies in.",
             HELIOGRAPH_MEMBER(weights));
  fields.add_part(
      input_fields("The data set or shards to score. Without it, those of the run that wrote "
                   "--checkpoint and in whose directory it lies. Labels may be missing, but not "
                   "a file of labels that is a part of the form."),
      HELIOGRAPH_MEMBER(run.input));
  fields.add_part(train_option_fields(), HELIOGRAPH_MEMBER(run.train),
                  {"split", "split-seed", "stratified", "reproducible", "metric", "eval-chunk-mib",
                   "parts", "partitioner", "objective", "partition-seed", "node-order", "transport",
                   "device", "timeout", "threads-per-rank"});
  fields.group("Results");
  fields.add("out", "DIR",
             "Write eval.json, predictions.npy and, with --metric auc or ap, scores.npy to this "
             "directory.",
             HELIOGRAPH_MEMBER(run.out));
  fields.add("save-logits", "FILE.npy", "Write the logits of every node, nodes x classes, fp32.",
             HELIOGRAPH_MEMBER(logits));
  fields.add(
      "save-embeddings", "FILE.npy",
      "Write the input of the output map, or of the last layer if there is none, fp32: nodes "
      "x --hidden, with --jk concat nodes x (--layers x --hidden).",
      HELIOGRAPH_MEMBER(embeddings));
  fields.add("overwrite",
             "Replace results in --out and the files of --save-*, outside a data set's folder.",
             HELIOGRAPH_MEMBER(run.overwrite));
  fields.add_part(message_fields(), HELIOGRAPH_MEMBER(run.input));
  return fields.take();
}

/// Whether a file is the eval.json of an earlier evaluation.
bool is_result(const fs::path& file) {
  std::ifstream stream(file);
  const auto object = try_parse_json(stream);
  return object.is_object() && object.contains("checkpoint") && object.contains("test_metric");
}

/// Throws Error(usage) if a file could not be written or must not be replaced.
void require_writable_results(const EvalRequest& request) {
  const std::string& out = request.run.out;
  require_no_data(out);
  std::set<fs::path> files;
  const auto check = [&](const char* flag, const fs::path& path, const FileKind& kind) {
    if (!files.insert(fs::weakly_canonical(fs::absolute(path))).second) {
      throw Error(ErrorCode::usage,
                  fmt::format("--{} {}: another result has the same file", flag, path.string()));
    }
    require_writable({flag, path.string(), kind, request.run.overwrite});
  };
  if (!out.empty() && fs::exists(out)) {
    check("out", fs::path(out) / kPredictionsFile, kPredictionArray);
    check("out", fs::path(out) / kScoresFile, kScoreArray);
    check("out", fs::path(out) / kResultsFile, {"a result of eval", is_result});
  }
  const auto check_array = [&](const char* flag, const std::string& path) {
    if (path.empty()) return;
    check(flag, path, kRowArray);
    if (fs::path(path).extension() == ".npy") return;
    throw Error(ErrorCode::usage,
                fmt::format("--{} {}: the file is an array of NumPy, whose name ends in .npy; "
                            "heliograph export writes other forms",
                            flag, path));
  };
  check_array("save-logits", request.logits);
  check_array("save-embeddings", request.embeddings);
}

void write_files(const EvalRequest& request, const Model& model, const std::string& dataset,
                 EvaluationResult& result, const BeforeFile& before_file) {
  if (!request.logits.empty()) {
    before_file(request.logits);
    write_rows(request.logits, result.logits, result);
  }
  if (!request.embeddings.empty()) {
    before_file(request.embeddings);
    write_rows(request.embeddings, result.embeddings, result);
  }
  const std::string& out = request.run.out;
  if (out.empty()) return;
  std::error_code error;
  fs::create_directories(out, error);
  if (error) {
    throw Error(ErrorCode::usage,
                fmt::format("cannot create the directory {}: {}", out, error.message()));
  }
  // Logits and embeddings have files of their own.
  result.logits.clear();
  result.embeddings.clear();
  write_outputs(out, result, before_file);
  // Scores of an earlier evaluation that this one replaces.
  if (result.scores.empty()) fs::remove(fs::path(out) / kScoresFile, error);
  // JSON writes NaN, the score of a set for which it is not defined, as null.
  nlohmann::ordered_json object{{"checkpoint", request.weights},
                                {"epochs", model.epoch + 1},
                                {"dataset", dataset},
                                {"split", result.split},
                                {"ranks", result.ranks},
                                {"metric", choice_name(result.metric)},
                                {"train_metric", result.train_metric},
                                {"val_metric", result.val_metric},
                                {"test_metric", result.test_metric}};
  if (!result.unscored.empty()) object["unscored"] = result.unscored;
  // Predictions number classes as the weights do, which the data set may not.
  if (!model.class_names.empty()) object["class_names"] = model.class_names;
  before_file((fs::path(out) / kResultsFile).string());
  write_text_file(fs::path(out) / kResultsFile, json_text(object, 2) + "\n");
}

void print_scores(const EvalRequest& request, const Model& model, const EvaluationResult& result,
                  const std::string& data_hash) {
  const std::string metric = choice_name(result.metric);
  std::vector<std::pair<std::string, std::string>> rows;
  if (result.unscored.empty()) {
    rows = {{"test " + metric, score_text(result.test_metric)},
            {"validation " + metric, score_text(result.val_metric)},
            {"training " + metric, score_text(result.train_metric)},
            {"split", result.split}};
  } else {
    rows = {{"scores", "none: " + result.unscored}};
    if (!result.split.empty()) rows.emplace_back("split", result.split);
  }
  rows.emplace_back("weights", fmt::format("of epoch {}, {}", model.epoch, request.weights));
  if (result.unscored.empty() && !request.trained_on.empty() &&
      request.trained_on != seeded_split(request.run.train)) {
    rows.emplace_back("warning", "the weights were trained on split " + request.trained_on +
                                     ": their training nodes may be among those scored here");
  }
  if (!request.data_hash.empty() && request.data_hash != data_hash) {
    rows.emplace_back("warning",
                      request.run.input.data + " differs from the data that the run trained on");
  }
  std::string files;
  for (const std::string& file : {request.run.out, request.logits, request.embeddings}) {
    if (!file.empty()) files += (files.empty() ? "" : ", ") + file;
  }
  if (!files.empty()) rows.emplace_back("files", files);
  const std::string text = two_columns(rows);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void score_and_write(EvalRequest& request, const Model& model, Processes& processes,
                     LossGuard& guard) {
  TrainRequest& run = request.run;
  const bool prints = processes.is_root() && !run.input.quiet;
  if (processes.is_root()) require_writable_results(request);
  Progress progress(0, !prints, run.input.log_level);
  const TrainData data(run, progress);
  progress.phase(fmt::format("scoring {}", request.weights));
  EvaluationResult result = data.evaluate(run.train, model, progress.callback());
  progress.finish();
  const nlohmann::ordered_json dataset =
      processes.is_root() ? data.manifest() : nlohmann::ordered_json();
  if (processes.is_root()) {
    // The other processes wait for this one.
    const auto begin = [&](const std::string& what) {
      guard.limit("writing " + what, run.train.transport.timeout_seconds);
    };
    write_files(request, model, dataset.at("name").get<std::string>(), result, begin);
    begin("standard output");
  }
  if (prints) print_scores(request, model, result, dataset.at("hash").get<std::string>());
  guard.limit("", 0);
}

int score(EvalRequest& request, const Model& model, Processes& processes, LossGuard& guard) {
  const bool prints = processes.is_root() && !request.run.input.quiet;
  std::atomic<bool> reported = false;
  const auto report_signal = [&] {
    if (!prints || reported.exchange(true)) return;
    write_past_locks(fmt::format("heliograph: stopped by {}\n", stopping_signal()));
  };
  const LossGuard::Recording recording(guard, [&] {
    if (processes.interrupted()) report_signal();
  });
  const SignalWatch watch(
      {[](int) {},
       [&](int signal) {
         processes.fail(ErrorCode::interrupted, fmt::format("stopped by {}", signal_name(signal)));
         abandon_files(false);
         report_signal();
       },
       [] {}, [](int) { return 0.0; },
       [&] { return !processes.joined() || !processes.wait_for_failure(kLossSeconds); }});
  try {
    score_and_write(request, model, processes, guard);
  } catch (...) {
    if (processes.interrupted()) report_signal();
    throw;
  }
  processes.leave();
  return 0;
}

int run_eval(const Arguments<EvalRequest>& arguments) {
  EvalRequest request;
  request.weights = arguments.text("checkpoint").value_or("");
  require_text(request.weights, "checkpoint", "a run directory, a checkpoint or a file of weights");
  const fs::path run = RunDirectory::of(request.weights);
  const Model model = Model::load(request.weights);
  const std::string weights = request.weights;
  std::optional<CheckpointInfo> checkpoint;
  int trained_parts = 0;
  std::error_code ignored;
  if (fs::exists(fs::path(weights) / kCheckpointManifest, ignored)) {
    checkpoint = read_checkpoint(weights);
  }
  apply_run(run, checkpoint, request.run, [&] {
    // How fast the run's links were, and where it saved, is no concern of this process.
    TransportOptions transport;
    transport.device = request.run.train.transport.device;
    transport.threads_per_rank = request.run.train.transport.threads_per_rank;
    request.run.train.transport = transport;
    request.run.train.checkpoint = CheckpointOptions();
    request.run.train.init_from.clear();
    request.run.train.reproducible = model.reproducible;
    request.run.train.metric = model.metric;
    request.run.input.regression = model.task == Task::regression;
    if (model.split) request.run.train.split = *model.split;
    if (model.split || !run.empty()) {
      request.trained_on = seeded_split(request.run.train);
    }
    trained_parts = request.run.train.partition.parts;
    arguments.apply(request);
  });
  const fs::path record = run / "run.json";
  if (!arguments.given()("data") && !run.empty() && fs::is_regular_file(record, ignored)) {
    const nlohmann::json hash = read_run_json(record.string()).dataset_hash;
    if (hash.is_string()) request.data_hash = hash.get<std::string>();
  }
  TrainOptions& options = request.run.train;
  options.model = model.options;
  options.normalize = model.normalize;
  options.keep_logits = !request.logits.empty();
  options.keep_embeddings = !request.embeddings.empty();
  options.eval_every = 1;
  options.patience = 0;
  request.run.input.requires_labels = false;
  options.partition.balance_train &= options.partition.partitioner == Partitioner::metis;
  require_text(request.run.input.data, "data", "the path of a data set or of shards");
  if (request.run.overwrite && request.run.out.empty() && !options.keep_logits &&
      !options.keep_embeddings) {
    throw Error(ErrorCode::usage, "--overwrite needs --out, --save-logits or --save-embeddings");
  }
  const GivenOption given = arguments.given();
  const bool shards = is_shards(request.run.input.data);
  set_options_of_shards(request.run, given);
  validate(options);
  const auto awaited = awaited_processes(options.transport);
  if (awaited && (given("parts") || shards)) require_parts(options.partition.parts, *awaited);
  const auto no_advice = [](bool) { return [] { return std::string(); }; };
  const auto work = [&](Processes& processes, LossGuard& guard) {
    if (processes.joined() && !given("parts") && !shards) {
      options.partition.parts = processes.count();
    }
    if (processes.joined()) require_parts(options.partition.parts, processes.count());
    // Scores do not depend on the cut, and the run's file has another number of parts.
    PartitionOptions& cut = options.partition;
    if (cut.partitioner == Partitioner::file && !given("partitioner") &&
        cut.parts != trained_parts) {
      cut.partitioner = Partitioner::metis;
    }
    return score(request, model, processes, guard);
  };
  return run_as_process(options.transport, request.run.input, no_advice, work);
}

}  // namespace

Command eval_command() {
  return with_fields<EvalRequest>(
      {"eval", "Score the weights of a run exactly, on any number of ranks.",
       " --checkpoint PATH [options]",
       "Examples:\n"
       "  heliograph eval --checkpoint runs/one-bit --data graph/\n"
       "  heliograph eval --checkpoint runs/one-bit/checkpoints/epoch-000300 --data graph/ \\\n"
       "                  --parts 1 --out runs/one-bit-eval\n"
       "The model is that of the weights; options that are not given are those of their run.\n"
       "--split-seed alone draws that run's split with another seed.\n"
       "Without labels, or without a split, there are no scores, but all other results."},
      eval_fields(), run_eval);
}

}  // namespace heliograph::cli
