#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>

#include "cli/command.hpp"
#include "cli/loss_guard.hpp"
#include "cli/progress.hpp"
#include "cli/resume.hpp"
#include "cli/signals.hpp"
#include "cli/train_data.hpp"
#include "cli/train_report.hpp"
#include "cli/train_request.hpp"
#include "heliograph/error.hpp"
#include "heliograph/shards.hpp"
#include "heliograph/train.hpp"
#include "train/processes.hpp"
#include "train/run/output_file.hpp"
#include "train/run/run_directory.hpp"
#include "train/run/summary.hpp"

namespace heliograph::cli {
namespace {

/// From the first signal to the forced end; with what follows it stays below one second.
constexpr double grace_seconds = 0.7;
constexpr double abandon_seconds = 0.1;
/// For the watch to see that another process has ended.
constexpr double loss_seconds = 0.1;

/// No user asks for so many parts: what stands for --parts before it is given.
constexpr int parts_not_given = std::numeric_limits<int>::min();

/// A summary that cannot be written is better known before the run than after it.
void check_summary_folder(const std::string& path) {
  if (path.empty()) return;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (!parent.empty() && !std::filesystem::is_directory(parent, ignored)) {
    throw Error(ErrorCode::usage,
                fmt::format("--summary {}: {} is not a directory", path, parent.string()));
  }
  if (std::filesystem::is_directory(path, ignored)) {
    throw Error(ErrorCode::usage, fmt::format("--summary {} is a directory", path));
  }
}

const char* signal_name(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

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

/// One run, from the resolved request to its files.
class Run {
 public:
  /// `notes`: warnings that were found before it.
  Run(TrainRequest request, std::vector<std::string> words, std::vector<std::string> notes,
      Processes& processes)
      : request_(std::move(request)),
        words_(std::move(words)),
        notes_(std::move(notes)),
        processes_(processes),
        progress_(request_.train.epochs, !speaks(), request_.input.log_level) {}

  int execute() {
    std::signal(SIGXFSZ, SIG_IGN);  // A file that grows beyond a limit is an error of its write.
    SignalWatch watch({[this] { stop_ = true; }, [this](int signal) { end_by_force(signal); },
                       [this] { save_ = true; }, [this] { return grace(); },
                       [this] { return is_request(); }});
    const int code = train_and_write(watch);
    processes_.leave();
    return code;
  }

 private:
  /// A launcher that has lost a process stops the others: that is no request to stop.
  bool is_request() const {
    return !processes_.joined() || !processes_.wait_for_failure(loss_seconds);
  }

  bool speaks() const { return !request_.input.quiet && processes_.is_root(); }

  int train_and_write(SignalWatch& watch) {
    const TrainData data(request_, progress_);
    progress_.log(LogLevel::info, data.description());
    progress_.log(LogLevel::info, describe_run(request_));
    for (const std::string& line : notes_) progress_.log(LogLevel::warning, line);
    for (const std::string& line : warnings(request_)) progress_.log(LogLevel::warning, line);
    open_directory(data);
    try {
      const TrainResult result = train_reporting(data);
      write_results(result, watch.received());
    } catch (const std::exception& error) {
      record_failure(error);
      throw;
    }
    if (watch.received() == 0) return 0;
    progress_.log(LogLevel::info, fmt::format("stopped by {}", signal_name(watch.received())));
    return 128 + watch.received();
  }

  void open_directory(const TrainData& data) {
    if (request_.out.empty() || !processes_.is_root()) return;
    const std::lock_guard lock(directory_mutex_);
    auto manifest = run_manifest(request_, data.manifest(), words_);
    if (processes_.joined() && request_.train.transport.device == DeviceKind::cuda) {
      manifest["cuda_aware_mpi"] = processes_.moves_device_memory();
    }
    if (goes_on_in_place(request_)) {
      directory_.emplace(request_.out, RunDirectory::Resumed{}, std::move(manifest));
    } else {
      directory_.emplace(request_.out, request_.overwrite, std::move(manifest));
    }
  }

  /// A run that can save itself is given the time to end its epoch, once it has anything to save.
  std::optional<double> grace() const {
    if (request_.out.empty()) return grace_seconds;
    // Only rank 0 knows of epochs; a process that loses it ends anyway.
    if (has_epochs_ || !processes_.is_root()) return std::nullopt;
    return grace_seconds;
  }

  TrainResult train_reporting(const TrainData& data) {
    // An exception must not cross the engine's threads: it is kept, and the run is stopped.
    std::exception_ptr failure;
    TrainCallbacks callbacks;
    callbacks.stop = &stop_;
    callbacks.save = &save_;
    callbacks.on_resume = [&](std::span<const EpochReport> reports) {
      try {
        if (directory_) directory_->resume(reports);
      } catch (...) {
        failure = std::current_exception();
        throw;
      }
    };
    callbacks.log = progress_.callback();
    callbacks.on_epoch = [&](const EpochReport& report) {
      if (failure) return;
      has_epochs_ = true;
      try {
        if (directory_) directory_->append(report);
        progress_.epoch(report);
      } catch (...) {
        failure = std::current_exception();
        stop_ = true;
      }
    };
    progress_.phase(fmt::format("setting up {} rank{}", request_.train.partition.parts,
                                request_.train.partition.parts == 1 ? "" : "s"));
    TrainResult result;
    try {
      result = data.train(request_.train, callbacks);
    } catch (...) {
      progress_.finish();
      if (failure) std::rethrow_exception(failure);
      throw;
    }
    progress_.finish();
    if (failure) std::rethrow_exception(failure);
    return result;
  }

  void write_results(const TrainResult& result, int signal) {
    if (!processes_.is_root()) return;
    std::string files;
    if (directory_) {
      directory_->write_predictions(result);
      nlohmann::ordered_json members = result_json(result, request_.train);
      if (signal != 0) members["signal"] = signal_name(signal);
      directory_->finish(result.stop_reason, members);
      files = directory_->path().string();
    }
    if (!request_.summary.empty()) {
      write_text_file(request_.summary, summarize(result, request_.train).dump(2) + "\n");
      files += (files.empty() ? "" : ", ") + request_.summary;
    }
    if (!speaks()) return;
    const std::string block = result_block(request_, result, files);
    std::fwrite(block.data(), 1, block.size(), stdout);
    std::fflush(stdout);
  }

  void record_failure(const std::exception& error) {
    if (!directory_) return;
    try {
      directory_->finish("failed", error_json(error));
    } catch (const std::exception&) {
      // The first error is the one to report; a full disk often causes both.
    }
  }

  /// On the signal thread, while others may still compute: the process ends right after.
  void end_by_force(int signal) {
    progress_.abandon();
    processes_.fail(fmt::format("stopped by {} before the epoch ended", signal_name(signal)));
    if (const std::unique_lock lock(directory_mutex_, std::try_to_lock); lock.owns_lock()) {
      if (directory_) directory_->abandon({{"signal", signal_name(signal)}}, abandon_seconds);
    }
    if (!speaks()) return;
    // Not through stdio, whose locks other threads may hold.
    const std::string line =
        fmt::format("heliograph: stopped by {} before the epoch ended\n", signal_name(signal));
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  }

  TrainRequest request_;
  std::vector<std::string> words_;
  std::vector<std::string> notes_;
  Processes& processes_;
  Progress progress_;
  StopFlag stop_{false};
  SaveFlag save_{false};
  std::atomic<bool> has_epochs_{false};
  std::mutex directory_mutex_;  ///< Guards the making of `directory_`.
  std::optional<RunDirectory> directory_;
};

/// The flags of the command.
struct Given {
  Arguments<TrainRequest> flags{request_fields()};
  CLI::Option* config = nullptr;
};

/// While this process waits for others, and no watch waits for signals yet.
void stop_if_asked() {
  const int signal = SignalWatch::waiting();
  if (signal == 0) return;
  throw Error(static_cast<ErrorCode>(128 + signal),
              fmt::format("stopped by {} before all ranks had met", signal_name(signal)));
}

/// What cannot be written is better known before the run than after it.
void check_outputs(const TrainRequest& request) {
  check_summary_folder(request.summary);
  if (!request.out.empty() && !goes_on_in_place(request)) {
    RunDirectory::check(request.out, request.overwrite);
  }
}

/// The config file, then the flags.
void apply_given(const Given& given, TrainRequest& request) {
  if (given.config->count() > 0) {
    const std::string path = given.config->results().back();
    try {
      apply_json(std::span<const OptionField<TrainRequest>>(given.flags.fields()),
                 read_config(path), "--config " + path, request);
    } catch (const Error& error) {
      const std::string sentence = error.what();
      if (sentence.starts_with("--config")) throw;
      throw Error(error.code(), fmt::format("--config {}: {}", path, sentence));
    }
  }
  given.flags.apply(request);
}

/// Says where the run goes on, and where its checkpoints lie.
void place(const ResumePoint& resumed, TrainRequest& request) {
  CheckpointOptions& checkpoint = request.train.checkpoint;
  checkpoint.resume = resumed.checkpoint;
  if (request.out.empty()) request.out = resumed.run.string();
  if (!request.out.empty()) checkpoint.folder = RunDirectory::checkpoints(request.out);
  if (request.overwrite && goes_on_in_place(request)) {
    throw Error(ErrorCode::usage,
                fmt::format("--overwrite would remove the run that --resume {} goes on from",
                            request.resume));
  }
}

int run(const Given& given, const std::vector<std::string>& words) {
  TrainRequest request;
  request.train.partition.parts = parts_not_given;
  apply_given(given, request);
  ResumePoint resumed;
  if (!request.resume.empty()) {
    // What was given comes over the options of the run that goes on.
    resumed = find_resume_point("resume", request.resume);
    request = TrainRequest();
    apply_resumed(resumed, request);
    apply_given(given, request);
  }
  place(resumed, request);
  bool parts_given = request.train.partition.parts != parts_not_given;
  if (!parts_given) request.train.partition.parts = 1;
  require_text(request.input.data, "data", "the path of a data set or of shards");
  const bool shards = is_shards(request.input.data);
  const std::vector<std::string> replaced = take_from_shards(request, [&](const std::string& name) {
    return given.flags.given(name) || (name == "parts" && parts_given);
  });
  parts_given = parts_given || shards;
  validate(request.train);
  SignalWatch::block();  // Joining others starts threads.
  Processes processes(request.train.transport);
  // MPI writes to sockets of processes that may have gone.
  if (processes.joins_others()) std::signal(SIGPIPE, SIG_IGN);
  LossGuard guard(processes);
  try {
    processes.join(stop_if_asked);
    if (!parts_given) request.train.partition.parts = processes.count();
    if (processes.joined()) require_parts(request.train.partition.parts, processes.count());
    if (processes.is_root()) check_outputs(request);
    const int code = Run(std::move(request), words, replaced, processes).execute();
    if (code != 0) processes.hold_up_the_end();
    end_mpi();
    return code;
  } catch (...) {
    processes.fail();
    if (processes.lost()) {
      std::fflush(stdout);
      guard.dismiss();
      guard.report_and_leave();
    }
    const bool reports = processes.reports();
    guard.dismiss();
    if (reports) throw;
    return static_cast<int>(processes.failure_code());
  }
}

}  // namespace

Command train_command() {
  const auto given = std::make_shared<Given>();
  return {"train",
          "Train a graph neural network on a whole graph, split over K ranks.",
          " --data PATH [options]",
          "Examples:\n"
          "  heliograph train --data cora.npz --model gcn --epochs 200\n"
          "  heliograph train --data graph/ --parts 4 --bits 1 --out runs/one-bit\n"
          "  heliograph train --config runs/one-bit/run.json --bits 32 --out runs/fp32\n"
          "  heliograph train --resume runs/one-bit --epochs 400\n"
          "Flags override --config. Ctrl-C stops at the end of an epoch and keeps what was "
          "written;\nwith --out it saves a checkpoint, as SIGTERM does, and SIGUSR1 without "
          "stopping.\n"
          "Exit codes: 0 done; 2 usage; 3 bad input; 4 out of memory or disk; 5 a rank was lost;\n"
          "6 NaN or Inf while training; 7 files that do not belong together; 130 SIGINT; 143 "
          "SIGTERM.",
          [given](CLI::App& app) {
            given->flags.declare(app);
            given->config =
                app.add_option("--config",
                               "Options as a JSON object keyed by flag names, or an earlier run's "
                               "run.json.");
            given->config->type_name("FILE.json")->take_last()->group("Data");
          },
          [given](const std::vector<std::string>& words) { return run(*given, words); }};
}

}  // namespace heliograph::cli
