#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "cli/resume.hpp"
#include "cli/text.hpp"
#include "cli/train_request.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/error.hpp"
#include "heliograph/shards.hpp"
#include "train/options/json.hpp"
#include "train/options/values.hpp"
#include "train/processes.hpp"
#include "train/run/output_file.hpp"

namespace heliograph::cli {
namespace {

namespace fs = std::filesystem;
constexpr const char* kResultsFile = "eval.json";

/// Flags of train that apply to scoring; the other options are the checkpoint's.
std::vector<OptionField<TrainRequest>> eval_fields() {
  FieldTable<TrainRequest> fields;
  fields.group("Data");
  fields.add("checkpoint", "DIR",
             "The checkpoint to score, or a run directory, whose newest one is scored. Required.",
             HELIOGRAPH_MEMBER(resume));
  fields.add_part(input_fields(), HELIOGRAPH_MEMBER(input));
  fields.add_part(
      train_option_fields(), HELIOGRAPH_MEMBER(train),
      {"split", "split-seed", "stratified", "reproducible", "metric", "eval-chunk-mib", "parts",
       "partitioner", "objective", "partition-seed", "node-order", "threads-per-rank"});
  fields.group("Results");
  fields.add(
      "out", "DIR",
      "Write eval.json, predictions.npy and, with --metric auc, scores.npy to this directory.",
      HELIOGRAPH_MEMBER(out));
  fields.add("overwrite", "Replace results in --out.", HELIOGRAPH_MEMBER(overwrite));
  fields.add_part(message_fields(), HELIOGRAPH_MEMBER(input));
  return fields.take();
}

void require_no_results(const TrainRequest& request) {
  if (request.out.empty() || request.overwrite) return;
  for (const char* name : {kPredictionsFile, kScoresFile, kResultsFile}) {
    std::error_code ignored;
    if (!fs::exists(fs::path(request.out) / name, ignored)) continue;
    throw Error(ErrorCode::usage,
                fmt::format("--out {} holds {} already; choose another directory or add "
                            "--overwrite",
                            request.out, name));
  }
}

void write_scores(const TrainRequest& request, const fs::path& checkpoint, const Dataset& dataset,
                  const EvaluationResult& result) {
  const std::string metric = choice_name(result.metric);
  const int epochs = read_checkpoint(checkpoint).epochs;
  if (!request.out.empty()) {
    std::error_code error;
    fs::create_directories(request.out, error);
    if (error) {
      throw Error(ErrorCode::usage,
                  fmt::format("cannot create the directory {}: {}", request.out, error.message()));
    }
    write_predictions(request.out, result.predictions, result.prediction_cols, result.scores);
    // JSON writes NaN, the score of a set without nodes, as null.
    const nlohmann::ordered_json object{{"checkpoint", checkpoint.string()},
                                        {"epochs", epochs},
                                        {"dataset", dataset.name},
                                        {"ranks", request.train.partition.parts},
                                        {"metric", metric},
                                        {"train_metric", result.train_metric},
                                        {"val_metric", result.val_metric},
                                        {"test_metric", result.test_metric}};
    write_text_file(fs::path(request.out) / kResultsFile, object.dump(2) + "\n");
  }
  if (request.input.quiet) return;
  std::vector<std::pair<std::string, std::string>> rows{
      {"test " + metric, score_text(result.test_metric)},
      {"validation " + metric, score_text(result.val_metric)},
      {"training " + metric, score_text(result.train_metric)},
      {"weights", fmt::format("after {} epochs, {}", epochs, checkpoint.string())}};
  if (!request.out.empty()) rows.emplace_back("files", request.out);
  const std::string text = two_columns(rows);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

int run_eval(const Arguments<TrainRequest>& arguments) {
  TrainRequest request;
  arguments.apply(request);
  require_text(request.resume, "checkpoint", "a checkpoint or a run directory");
  const ResumePoint point = find_resume_point("checkpoint", request.resume);
  request = TrainRequest();
  apply_resumed(point, request, [&] {
    request.train.checkpoint = CheckpointOptions();
    request.train.transport.kind = TransportKind::threads;
    arguments.apply(request);
  });
  validate(request.train);
  const Processes alone(request.train.transport);  // Throws if mpirun or torchrun started several.
  require_text(request.input.data, "data", "the path of a data set");
  if (is_shards(request.input.data)) {
    throw Error(ErrorCode::usage,
                fmt::format("--data {} holds shards; eval needs the data set that they were cut "
                            "from",
                            request.input.data));
  }
  require_no_results(request);

  Progress progress(0, request.input.quiet, request.input.log_level);
  const Dataset dataset = load(request.input, progress);
  progress.phase(fmt::format("scoring {}", point.checkpoint.string()));
  const EvaluationResult result =
      evaluate(dataset, request.train, point.checkpoint, progress.callback());
  progress.finish();
  write_scores(request, point.checkpoint, dataset, result);
  return 0;
}

}  // namespace

Command eval_command() {
  return with_fields<TrainRequest>(
      {"eval", "Score the weights of a checkpoint exactly, on any number of ranks.",
       " --checkpoint DIR --data PATH [options]",
       "Examples:\n"
       "  heliograph eval --checkpoint runs/one-bit --data graph/\n"
       "  heliograph eval --checkpoint runs/one-bit/checkpoints/epoch-000300 --data graph/ \\\n"
       "                  --parts 1 --out runs/one-bit-eval\n"
       "The model is the checkpoint's; options that are not given are those of its run."},
      eval_fields(), run_eval);
}

}  // namespace heliograph::cli
