#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <mutex>
#include <optional>

#include "cli/command.hpp"
#include "cli/process_run.hpp"
#include "cli/progress.hpp"
#include "cli/resume.hpp"
#include "cli/signals.hpp"
#include "cli/text.hpp"
#include "cli/train_data.hpp"
#include "cli/train_report.hpp"
#include "cli/train_request.hpp"
#include "heliograph/error.hpp"
#include "heliograph/shards.hpp"
#include "heliograph/train.hpp"
#include "train/options/json.hpp"
#include "train/plan/shard_plan.hpp"
#include "train/processes.hpp"
#include "train/run/output_file.hpp"
#include "train/run/output_path.hpp"
#include "train/run/run_directory.hpp"
#include "train/run/summary.hpp"

namespace heliograph::cli {
namespace {

/// From the first signal to the forced end, which then comes within a second.
constexpr double kGraceSeconds = 0.7;
constexpr double kAbandonSeconds = 0.1;
constexpr const char* kSignalElsewhere = "a signal to another process";
/// Time in which the watch notices that another process has ended.
constexpr double kLossSeconds = 0.1;

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

nlohmann::ordered_json error_json(const std::exception& error) {
  const auto* known = dynamic_cast<const Error*>(&error);
  return {{"error",
           {{"message", error.what()},
            {"exit_code", known != nullptr ? nlohmann::ordered_json(static_cast<int>(known->code()))
                                           : nlohmann::ordered_json()}}}};
}

nlohmann::ordered_json result_json(const TrainResult& result, const TrainOptions& options) {
  return {{"result", summarize(result, options)}, {"partition_hash", result.partition_hash}};
}

/// One run of the command, from its request to its files.
class TrainingRun {
 public:
  /// `words`: the arguments as given. `notes`: warnings to print.
  TrainingRun(TrainRequest request, std::vector<std::string> words, std::vector<std::string> notes,
              Processes& processes, LossGuard& guard)
      : advice_(advice_for(request, processes.joins_others())),
        request_(std::move(request)),
        words_(std::move(words)),
        notes_(std::move(notes)),
        processes_(processes),
        guard_(guard),
        progress_(request_.train.epochs, !prints(), request_.input.log_level) {}

  int execute() {
    SignalWatch watch({[this](int signal) { stop(signal); },
                       [this](int signal) { end_by_force(signal); }, [this] { save_ = true; },
                       [this](int signal) { return grace(signal); },
                       [this] { return is_request(); }});
    const int code = train_and_write(watch);
    processes_.leave();
    return code;
  }

 private:
  /// Whether a signal is a request to stop. A launcher also sends one after it has lost a process.
  bool is_request() const {
    return !processes_.joined() || !processes_.wait_for_failure(kLossSeconds);
  }

  bool prints() const { return !request_.input.quiet && processes_.is_root(); }

  int train_and_write(SignalWatch& watch) {
    const TrainData data(request_, progress_);
    progress_.log(LogLevel::info, data.description());
    progress_.log(LogLevel::info, describe_run(request_));
    for (const std::string& line : notes_) progress_.log(LogLevel::warning, line);
    open_directory(data);
    bool interrupted = false;
    try {
      const TrainResult result = train_reporting(data);
      interrupted = result.stop_reason == "interrupted";
      write_results(result, stopped_by(watch, interrupted));
    } catch (const std::exception& error) {
      record_failure(error);
      throw;
    }
    const std::string by = stopped_by(watch, interrupted);
    if (by.empty()) return 0;
    progress_.log(LogLevel::info, fmt::format("stopped by {}; {}", by, advice_()));
    return 128 + (watch.received() != 0 ? watch.received() : SIGTERM);
  }

  /// The signal that has stopped the run; empty if none has. One that comes while results are
  /// written stops nothing.
  static std::string stopped_by(const SignalWatch& watch, bool interrupted) {
    if (!interrupted) return "";
    return watch.received() != 0 ? signal_name(watch.received()) : kSignalElsewhere;
  }

  void open_directory(const TrainData& data) {
    if (request_.out.empty() || !processes_.is_root()) return;
    const std::lock_guard lock(directory_mutex_);
    auto manifest = run_manifest(request_, data.manifest(), words_);
    if (processes_.joined() && request_.train.transport.device == DeviceKind::cuda) {
      manifest["cuda_aware_mpi"] = processes_.moves_device_memory();
    }
    if (resumes_in_run_directory(request_)) {
      directory_.emplace(request_.out, RunDirectory::Resumed{}, std::move(manifest));
    } else {
      directory_.emplace(request_.out, request_.overwrite, std::move(manifest));
    }
  }

  /// Runs on the signal thread.
  void stop(int signal) {
    stop_ = true;
    if (signal != SIGINT || !has_epochs_) return;
    if (trained_) {
      progress_.log(LogLevel::info,
                    "the last epoch has run, and results are being written. Ctrl-C "
                    "again stops now");
      return;
    }
    progress_.log(LogLevel::info,
                  fmt::format("stopping at the end of this epoch; {}. Ctrl-C again stops now",
                              request_.out.empty()
                                  ? "without --out nothing is saved, and the result is only printed"
                                  : "then a checkpoint is saved"));
  }

  /// Seconds between a signal and the forced end; nothing, which means no limit, for a run that can
  /// save a checkpoint at the end of its epoch, and for one whose user has been told what is lost.
  std::optional<double> grace(int signal) const {
    if (trained_) return std::nullopt;  // Results are being written, which has a limit of its own.
    if (request_.out.empty() && (signal != SIGINT || request_.input.quiet)) return kGraceSeconds;
    // Only rank 0 counts epochs. The other processes end when it does.
    if (has_epochs_ || !processes_.is_root()) return std::nullopt;
    return kGraceSeconds;
  }

  TrainResult train_reporting(const TrainData& data) {
    // A run whose results cannot be written still saves a checkpoint.
    std::exception_ptr failure;
    TrainCallbacks callbacks;
    callbacks.stop = &stop_;
    callbacks.save = &save_;
    callbacks.on_resume = [&](std::span<const EpochReport> reports) {
      has_epochs_ = true;
      if (directory_) directory_->resume(reports);
    };
    callbacks.before_saving = [&] {
      if (directory_) directory_->take_over();
    };
    callbacks.log = progress_.callback();
    callbacks.on_epoch = [&](const EpochReport& report) {
      has_epochs_ = true;
      try {
        if (directory_) directory_->append(report);
        progress_.epoch(report);
      } catch (...) {
        failure = std::current_exception();
        return EpochAction::stop;
      }
      return EpochAction::proceed;
    };
    const int ranks = request_.train.partition.parts;
    progress_.phase(fmt::format("setting up {} {}", ranks, plural(ranks, "rank")));
    TrainResult result;
    try {
      result = data.train(request_.train, callbacks);
    } catch (...) {
      progress_.finish();
      if (failure) std::rethrow_exception(failure);
      throw;
    }
    trained_ = true;
    progress_.finish();
    if (failure) std::rethrow_exception(failure);
    return result;
  }

  void write_results(const TrainResult& result, const std::string& stopped_by) {
    if (!processes_.is_root()) return;
    std::string files;
    std::exception_ptr failure;  // The first one, thrown after the scores are printed.
    const auto write = [&](const std::string& file, const auto& body) {
      try {
        body();
        files += (files.empty() ? "" : ", ") + file;
      } catch (const Error&) {
        if (!failure) failure = std::current_exception();
      }
    };
    // The other processes wait for this one.
    const auto begin = [&](const std::string& what) {
      guard_.limit("writing " + what, request_.train.transport.timeout_seconds);
    };
    if (directory_) {
      write(directory_->path().string(), [&] {
        directory_->write_outputs(result, begin);
        nlohmann::ordered_json members = result_json(result, request_.train);
        if (!stopped_by.empty()) members["signal"] = stopped_by;
        begin("run.json to --out " + request_.out);
        directory_->finish(result.stop_reason, members);
      });
    }
    if (!request_.summary.empty()) {
      begin("--summary " + request_.summary);
      write(request_.summary, [&] {
        write_text_file(request_.summary, summarize(result, request_.train).dump(2) + "\n");
      });
    }
    begin("standard output");
    if (prints()) {
      const std::string block = result_block(request_, result, files);
      std::fwrite(block.data(), 1, block.size(), stdout);
      std::fflush(stdout);
    }
    if (failure) std::rethrow_exception(failure);
    guard_.limit("", 0);
  }

  void record_failure(const std::exception& error) {
    const bool stopped = processes_.joined() && processes_.failure_code() == ErrorCode::interrupted;
    if (stopped && prints()) {
      progress_.log(LogLevel::info, fmt::format("stopped by {}; {}", kSignalElsewhere, advice_()));
    }
    if (!directory_) return;
    try {
      directory_->finish(
          stopped ? "interrupted" : "failed",
          stopped ? nlohmann::ordered_json{{"signal", kSignalElsewhere}} : error_json(error));
    } catch (const std::exception&) {
      // The first error is the one to report; a full disk often causes both.
    }
  }

  /// Runs on the signal thread, while other threads may compute. The process ends right after it.
  void end_by_force(int signal) {
    progress_.abandon();
    const std::string reason = fmt::format("stopped by {} at once", signal_name(signal));
    processes_.fail(ErrorCode::interrupted, reason);
    bool stopped = true;
    if (const std::unique_lock lock(directory_mutex_, std::try_to_lock);
        lock.owns_lock() && directory_) {
      stopped = directory_->abandon({{"signal", signal_name(signal)}}, kAbandonSeconds);
    }
    abandon_files(false);
    if (!prints()) return;
    const std::string then = stopped ? advice_() : "run.json says already how the run ended";
    write_past_locks(fmt::format("heliograph: {}; {}\n", reason, then));
  }

  const std::function<std::string()> advice_;
  TrainRequest request_;
  std::vector<std::string> words_;
  std::vector<std::string> notes_;
  Processes& processes_;
  LossGuard& guard_;
  Progress progress_;
  StopFlag stop_{false};
  SaveFlag save_{false};
  std::atomic<bool> has_epochs_{false};
  std::atomic<bool> trained_{false};
  std::mutex directory_mutex_;  ///< Held while `directory_` is made.
  std::optional<RunDirectory> directory_;
};

using TrainArguments = Arguments<TrainRequest>;

/// Throws Error(usage) if results could not be written at the end of the run.
void require_writable_outputs(const TrainRequest& request) {
  require_writable_summary(request);
  if (!request.out.empty() && !resumes_in_run_directory(request)) {
    RunDirectory::check(request.out, request.overwrite);
  }
}

/// Stores the options of the config file, then the flags. Relative paths of a run.json are those of
/// the directory in which its run was started. A config's options for a model or a schedule that a
/// flag has replaced count as not given. Returns the config's, if the user wrote it.
nlohmann::json apply_given(const TrainArguments& arguments, TrainRequest& request) {
  nlohmann::json written = nlohmann::json::object();
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
      if (!config.of_run) written = config.options;
    } catch (const Error& error) {
      const std::string sentence = error.what();
      if (sentence.starts_with("--config")) throw;
      throw Error(error.code(), fmt::format("--config {}: {}", *path, sentence));
    }
  }
  const TrainOptions before = request.train;
  arguments.apply(request);
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
  ResumePoint resumed;
  if (!request.resume.empty()) {
    // Flags override the options of the resumed run; some, as --split-seed, apply to these only.
    resumed = find_resume_point("resume", request.resume);
    request = TrainRequest();
    apply_resumed(resumed, request, apply);
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
  const std::vector<std::string> replaced =
      set_options_of_shards(request, [&](const std::string& name) {
        return arguments.given(name) || (name == "parts" && parts_given);
      });
  parts_given = parts_given || shards;
  validate(request.train, [&](const std::string& name) {
    return arguments.given(name) || find_option(written, name) != nullptr;
  });
  const auto awaited = awaited_processes(request.train.transport);
  if (parts_given && awaited) require_processes(arguments, request, *awaited);
  const auto advise = [&](bool launched) { return advice_for(request, launched); };
  return run_as_process(
      request.train.transport, request.input, advise, [&](Processes& processes, LossGuard& guard) {
        if (!parts_given) request.train.partition.parts = processes.count();
        if (processes.joined()) require_processes(arguments, request, processes.count());
        if (processes.is_root()) require_writable_outputs(request);
        std::vector<std::string> notes = replaced;
        std::ranges::copy(warnings(request, arguments.given()), std::back_inserter(notes));
        return TrainingRun(std::move(request), words, notes, processes, guard).execute();
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
