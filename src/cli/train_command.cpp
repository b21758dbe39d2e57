#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/process_run.hpp"
#include "cli/resume.hpp"
#include "cli/text.hpp"
#include "cli/train_data.hpp"
#include "cli/train_request.hpp"
#include "cli/training_run.hpp"
#include "heliograph/error.hpp"
#include "heliograph/shards.hpp"
#include "heliograph/train.hpp"
#include "train/options/json.hpp"
#include "train/plan/shard_plan.hpp"
#include "train/processes.hpp"
#include "train/run/output_path.hpp"
#include "train/run/run_directory.hpp"
#include "train/run/summary.hpp"

namespace heliograph::cli {
namespace {

/// The value of --parts until it is given.
constexpr int kPartsNotGiven = std::numeric_limits<int>::min();

/// Whether a summary may be written there: to an earlier one, or to a device or pipe, which is not
/// replaced.
bool takes_summary(const std::filesystem::path& file) {
  std::error_code ignored;
  return !std::filesystem::is_regular_file(file, ignored) || is_summary(file);
}

/// Whether making the directory `out` makes the folder of `file`, which does not exist.
bool makes_folder_of(const std::filesystem::path& out, const std::filesystem::path& file) {
  const auto folder = std::filesystem::absolute(file).lexically_normal().parent_path();
  std::error_code ignored;
  if (out.empty() || std::filesystem::exists(folder, ignored)) return false;
  const auto made = std::filesystem::absolute(out).lexically_normal();
  return std::ranges::mismatch(folder, made).in1 == folder.end();
}

/// Throws Error(usage) if the summary could not be written at the end of the run, or if it would
/// replace anything but an earlier summary.
void require_writable_summary(const TrainRequest& request) {
  const std::string& path = request.summary;
  if (path.empty()) return;
  if (!request.out.empty() && RunDirectory::holds_as_own(request.out, path)) {
    throw Error(
        ErrorCode::usage,
        fmt::format("--summary {} is a file of the run in --out; choose another name", path));
  }
  if (makes_folder_of(request.out, path)) return;
  require_writable({"summary", path, {"a summary of an earlier run", takes_summary}});
}

using TrainArguments = Arguments<TrainRequest>;

/// Throws Error(usage) if results could not be written at the end of the run.
void require_writable_outputs(const TrainRequest& request) {
  require_writable_summary(request);
  if (!request.out.empty() && !resumes_in_run_directory(request)) {
    RunDirectory::complete_replacement(request.out);
    RunDirectory::check(request.out, request.overwrite);
  }
}

/// Stores the options of the config file, then the flags. Relative paths of a run.json are those of
/// the directory in which its run was started. A config's options for a model or a schedule that a
/// flag has replaced count as not given. Returns the config's, if the user wrote it.
nlohmann::json apply_given(const TrainArguments& arguments, TrainRequest& request) {
  nlohmann::json written = nlohmann::json::object();
  bool of_run = false;  // Whether the config is a run's.
  // So that --split-seed and --stratified alone are about the split that is fixed in shards.
  const auto begin_with_shards = [&](const std::string& data) {
    if (is_shards(data)) options_from_json(shaping_options_of(data), data, request.train);
  };
  if (const auto data = arguments.text("data")) begin_with_shards(*data);
  if (const auto path = arguments.text("config")) {
    try {
      const RunConfig config = read_config(*path);
      const auto data = config.options.find("data");
      if (!arguments.text("data") && data != config.options.end() && data->is_string()) {
        begin_with_shards(path_of_run(data->get<std::string>(), config.began).string());
      }
      apply_json(std::span<const OptionField<TrainRequest>>(arguments.fields()), config.options,
                 "--config " + *path, request);
      request.input.data = path_of_run(request.input.data, config.began).string();
      for (std::filesystem::path* file :
           {&request.train.partition.file, &request.train.init_from}) {
        *file = path_of_run(*file, config.began);
      }
      of_run = config.of_run;
      if (!of_run) written = config.options;
    } catch (const Error& error) {
      const std::string sentence = error.what();
      if (sentence.starts_with("--config")) throw;
      throw Error(error.code(), fmt::format("--config {}: {}", *path, sentence));
    }
  }
  const TrainOptions before = request.train;
  const bool other_data = of_run && arguments.text("data");
  const DataOptions reading = other_data ? take_reading(request.input) : DataOptions();
  arguments.apply(request);
  if (other_data) give_reading(reading, request.input);
  if (!arguments.text("config")) return written;
  const auto defaults = options_to_json(TrainOptions());
  nlohmann::json reset = nlohmann::json::object();
  for (const std::string& name : misplaced_options(request.train, before)) {
    if (arguments.given(name)) continue;
    reset[name] = defaults.at(name);
    written.erase(name);
  }
  apply_json(std::span<const OptionField<TrainRequest>>(arguments.fields()), reset, "--config",
             request);
  return written;
}

/// Sets the checkpoint to resume, the run directory, and the folder of new checkpoints.
void set_folders(const ResumePoint& resumed, TrainRequest& request) {
  CheckpointOptions& checkpoint = request.train.checkpoint;
  checkpoint.resume = resumed.checkpoint;
  if (request.out.empty()) request.out = resumed.run.string();
  if (!request.out.empty()) checkpoint.folder = RunDirectory::checkpoints(request.out);
  if (request.overwrite && resumes_in_run_directory(request)) {
    throw Error(
        ErrorCode::usage,
        fmt::format("--overwrite would remove the run that --resume {} continues", request.resume));
  }
  if (request.overwrite && request.out.empty()) {
    throw Error(ErrorCode::usage, "--overwrite needs --out: a run directory to replace");
  }
}

/// Resets the shape of the resumed run's links, which a run of threads has simulated, unless ranks
/// are threads again. Options that are `given` stay. Returns what to say of it.
std::vector<std::string> leave_out_links(const GivenOption& given, TransportOptions& transport) {
  const bool simulates = transport.kind != TransportKind::nccl &&
                         choose_transport(transport) == TransportKind::threads;
  if (simulates) return {};
  std::vector<std::string> names;
  const auto leave_out = [&](const char* name, double& value) {
    if (value == 0 || given(name)) return;
    names.push_back(fmt::format("--{} {}", name, value));
    value = 0;
  };
  leave_out("link-gbps", transport.link_gbps);
  leave_out("link-latency-us", transport.link_latency_us);
  if (names.empty()) return {};
  return {"ranks are not threads, so the resumed run leaves out " + listed(names, "and") +
          " from now on"};
}

/// Throws Error(usage) unless there are as many processes as ranks.
void require_processes(const TrainArguments& arguments, const TrainRequest& request,
                       int processes) {
  const int parts = request.train.partition.parts;
  const bool resumes = !request.resume.empty();
  if (parts != processes && (resumes || is_shards(request.input.data)) &&
      !arguments.given("parts")) {
    const std::string what = resumes ? fmt::format("--resume {}: the checkpoint is", request.resume)
                                     : fmt::format("--data {}: the shards are", request.input.data);
    throw Error(ErrorCode::usage,
                fmt::format("{} of {} {}, but the launcher started {} {}, each of which is one "
                            "rank: start {}, or leave the launcher out",
                            what, parts, plural(parts, "rank"), processes,
                            plural(processes, "process"), parts));
  }
  require_parts(parts, processes);
}

int run_train(const TrainArguments& arguments, const std::vector<std::string>& words) {
  TrainRequest request;
  request.train.partition.parts = kPartsNotGiven;
  nlohmann::json written;
  const auto apply = [&] { written = apply_given(arguments, request); };
  if (const auto resume = arguments.text("resume")) {
    request.resume = *resume;
  } else {
    apply();
  }
  const GivenOption given = [&](const std::string& name) {
    return arguments.given(name) || find_option(written, name) != nullptr;
  };
  ResumePoint resumed;
  std::vector<std::string> notes;
  if (!request.resume.empty()) {
    // Flags override the options of the resumed run; some, as --split-seed, apply to these only.
    resumed = find_resume_point("resume", request.resume);
    request = TrainRequest();
    apply_resumed(resumed, request, apply);
    notes = leave_out_links(given, request.train.transport);
  }
  set_folders(resumed, request);
  bool parts_given = request.train.partition.parts != kPartsNotGiven;
  if (!parts_given) request.train.partition.parts = 1;
  require_text(request.input.data, "data", "the path of a data set or of shards");
  if (request.out.empty() && (request.train.keep_logits || request.train.keep_embeddings)) {
    throw Error(ErrorCode::usage,
                "--save-logits and --save-embeddings need --out: a directory to write to");
  }
  const bool shards = is_shards(request.input.data);
  std::ranges::copy(set_options_of_shards(request,
                                          [&](const std::string& name) {
                                            return arguments.given(name) ||
                                                   (name == "parts" && parts_given);
                                          }),
                    std::back_inserter(notes));
  parts_given = parts_given || shards;
  validate(request.train, given);
  const auto awaited = awaited_processes(request.train.transport);
  if (parts_given && awaited) require_processes(arguments, request, *awaited);
  const auto advise = [&](bool launched) { return advice_for(request, launched); };
  return run_as_process(
      request.train.transport, request.input, advise, [&](Processes& processes, LossGuard& guard) {
        if (!parts_given) request.train.partition.parts = processes.count();
        if (processes.joined()) require_processes(arguments, request, processes.count());
        if (processes.is_root()) require_writable_outputs(request);
        std::ranges::copy(warnings(request, arguments.given()), std::back_inserter(notes));
        return run_training(std::move(request), words, std::move(notes), processes, guard);
      });
}

}  // namespace

Command train_command() {
  const auto arguments = std::make_shared<TrainArguments>(request_fields());
  return {"train",
          "Train a graph neural network on a whole graph, split over K ranks.",
          " --data PATH [options]",
          "Examples:\n"
          "  heliograph train --data cora.npz --split random:60/20/20 --model gcn\n"
          "  heliograph train --data graph/ --parts 4 --bits 1 --out runs/one-bit "
          "--checkpoint-every 100\n"
          "  heliograph train --config runs/one-bit/run.json --bits 32 --out runs/fp32\n"
          "  heliograph train --resume runs/one-bit --epochs 400\n"
          "--no-X undoes a switch X that a config or a resumed run has set.\n"
          "Ctrl-C, SIGTERM and SIGHUP stop the run at the end of its epoch; with --out it saves "
          "a checkpoint first,\nwithout it nothing. SIGUSR1 saves a checkpoint, and the run "
          "continues.\n"
          "Exit codes: 0 done; 2 usage; 3 bad input; 4 out of memory or disk; 5 a rank was lost;\n"
          "6 NaN or Inf while training; 7 files that do not belong together; 129 SIGHUP;\n"
          "130 SIGINT; 143 SIGTERM.",
          [arguments](CLI::App& app) {
            arguments->declare(app);
            declare_flag(app, "config", "Data", "FILE.json",
                         "Read options from a JSON object keyed by flag names, or from an earlier "
                         "run's run.json. Flags override them.",
                         "", nullptr);
          },
          [arguments](const auto& words) { return run_train(*arguments, words); }};
}

}  // namespace heliograph::cli
