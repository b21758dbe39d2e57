#include "cli/training_run.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "cli/progress.hpp"
#include "cli/resume.hpp"
#include "cli/signals.hpp"
#include "cli/text.hpp"
#include "cli/train_data.hpp"
#include "cli/train_report.hpp"
#include "heliograph/error.hpp"
#include "heliograph/train.hpp"
#include "train/run/output_file.hpp"
#include "train/run/output_path.hpp"
#include "train/run/run_directory.hpp"
#include "train/run/summary.hpp"

namespace heliograph::cli {
namespace {

/// From the first signal to the forced end.
constexpr double kGraceSeconds = 0.7;
/// How long a forced end waits for another thread that makes or writes run.json.
constexpr double kAbandonSeconds = 1;

/// `failure`: the code of what ended the processes, with which another rank's error comes.
nlohmann::ordered_json error_json(const std::exception& error, ErrorCode failure) {
  nlohmann::ordered_json code;
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    const bool elsewhere = known->code() == ErrorCode::peer_lost;
    code = static_cast<int>(elsewhere ? failure : known->code());
  }
  return {{"error", {{"message", error.what()}, {"exit_code", code}}}};
}

nlohmann::ordered_json result_json(const TrainResult& result, const TrainOptions& options) {
  return {{"result", summarize(result, options)}, {"partition_hash", result.partition_hash}};
}

/// One run of the command, from its request to its files.
class TrainingRun {
 public:
  TrainingRun(TrainRequest request, std::vector<std::string> words, std::vector<std::string> notes,
              Processes& processes, LossGuard& guard)
      : advice_(advice_for(request, processes.joins_others())),
        request_(std::move(request)),
        words_(std::move(words)),
        notes_(std::move(notes)),
        processes_(processes),
        guard_(guard),
        progress_(request_.train.epochs, !prints(), request_.input.log_level),
        recording_(guard, [this] { end_by_guard(); }) {}

  int execute() {
    {
      const SignalWatch watch(
          {[this](int signal) { stop(signal); }, [this](int signal) { end_by_force(signal); },
           [this] { save_ = true; }, [this](int signal) { return grace(signal); },
           [this] { return is_request(); }});
      train_and_write();
      processes_.leave();
    }
    if (!interrupted_) return 0;
    // Only now: a watch that lives may have taken a signal that `own_signal` does not see yet.
    return 128 + (own_signal() != 0 ? own_signal() : SIGTERM);
  }

 private:
  /// Whether a signal is a request to stop. A launcher also sends one after it has lost a process.
  bool is_request() {
    signalled_ = true;
    signalled_ = !processes_.joined() || !processes_.wait_for_failure(kLossSeconds);
    return signalled_;
  }
  /// Waits while a signal may end this process before its first epoch replaces the earlier run.
  void keep_earlier_run() const {
    while (directory_ && request_.overwrite && !has_epochs_ &&
           (signalled_ || SignalWatch::waiting() != 0)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  bool prints() const { return !request_.input.quiet && processes_.is_root(); }

  void train_and_write() {
    const TrainData data(request_, progress_);
    progress_.log(LogLevel::info, data.description());
    progress_.log(LogLevel::info, describe_run(request_));
    for (const std::string& line : notes_) progress_.log(LogLevel::warning, line);
    open_directory(data);
    try {
      const TrainResult result = train_reporting(data);
      interrupted_ = result.stop_reason == "interrupted";
      // A signal that comes while results are written stops nothing.
      const std::string by = interrupted_ ? stopping_signal() : "";
      write_results(result, by);
      if (interrupted_) report_end(end_message(by));
    } catch (const std::exception& error) {
      record_failure(error);
      throw;
    }
  }

  /// What stopped the run and how to go on.
  std::string end_message(const std::string& by) const {
    return fmt::format("stopped by {}; {}", by,
                       complete_ ? "run.json says already how the run ended" : advice_());
  }

  /// Prints what stopped the run, unless another thread does. `at_once`: even if another thread
  /// holds stderr.
  void report_end(const std::string& message, bool at_once = false) {
    if (!prints()) return;
    // The process may end once this function has returned, so it waits for the other thread.
    const std::unique_lock lock(report_mutex_, std::chrono::milliseconds(50));
    if (reported_.exchange(true)) return;
    if (at_once) {
      write_past_locks("heliograph: " + message + "\n");
    } else {
      progress_.log(LogLevel::info, message);
    }
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
    // An epoch that ended in time would replace the earlier run. The other processes may have got
    // the signal too, and look for a loss before they take it.
    if (request_.overwrite) return processes_.joined() ? 2 * kLossSeconds : 0;
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
      keep_earlier_run();
      if (directory_) directory_->take_over();
    };
    callbacks.log = progress_.callback();
    callbacks.on_epoch = [&](const EpochReport& report) {
      keep_earlier_run();
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
        complete_ = !interrupted_;
      });
    }
    if (!request_.summary.empty()) {
      begin("--summary " + request_.summary);
      write(request_.summary, [&] {
        write_text_file(request_.summary, json_text(summarize(result, request_.train), 2) + "\n");
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

  /// The status of a run that ends by `error`, or by the signal `by`, and what run.json adds to it.
  std::pair<std::string, nlohmann::ordered_json> end_of_run(const std::exception& error,
                                                            const std::string& by) const {
    if (processes_.interrupted()) return {"interrupted", {{"signal", by}}};
    return {"failed", error_json(error, processes_.failure_code())};
  }

  void record_failure(const std::exception& error) {
    const std::string by = stopping_signal();
    if (processes_.interrupted()) report_end(end_message(by));
    if (!directory_) return;
    const auto [status, members] = end_of_run(error, by);
    try {
      directory_->finish(status, members);
    } catch (const std::exception&) {
      // The first error is the one to report; a full disk often causes both.
    }
  }

  /// Runs on a thread of the guard, while others may compute. The process ends right after it.
  void end_by_guard() {
    const std::string by = stopping_signal();
    if (processes_.interrupted()) {
      progress_.abandon();
      report_end(end_message(by), true);
    }
    const auto [status, members] =
        end_of_run(Error(processes_.failure_code(), processes_.failure_text()), by);
    abandon(status, members);
  }

  /// Runs on the signal thread, while other threads may compute. The process ends right after it.
  void end_by_force(int signal) {
    progress_.abandon();
    const std::string by = fmt::format("{} at once", signal_name(signal));
    processes_.fail(ErrorCode::interrupted, "stopped by " + by);
    abandon("interrupted", {{"signal", signal_name(signal)}});
    abandon_files(false);
    report_end(end_message(by), true);
  }

  /// Notes in run.json how the run ends, unless it has ended before.
  void abandon(const std::string& status, const nlohmann::ordered_json& members) {
    std::unique_lock lock(directory_mutex_, std::chrono::duration<double>(kAbandonSeconds));
    if (!lock.owns_lock()) return;
    if (directory_) {
      directory_->abandon(status, members, kAbandonSeconds);
    } else {
      lock.release();  // So that no thread makes it now, with a run.json that says "running".
    }
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
  std::atomic<bool> signalled_{false};    ///< A signal has come that may be a request to stop.
  std::atomic<bool> complete_{false};     ///< run.json says that the run is complete.
  std::atomic<bool> interrupted_{false};  ///< Training has ended early, at a request to stop.
  std::timed_mutex report_mutex_;         ///< Held while a thread prints what stopped the run.
  std::atomic<bool> reported_{false};     ///< A thread has printed that, or does.
  std::timed_mutex directory_mutex_;      ///< Held while `directory_` is made.
  std::optional<RunDirectory> directory_;
  LossGuard::Recording recording_;  ///< Last, as it uses the others.
};

}  // namespace

int run_training(TrainRequest request, std::vector<std::string> words,
                 std::vector<std::string> notes, Processes& processes, LossGuard& guard) {
  return TrainingRun(std::move(request), std::move(words), std::move(notes), processes, guard)
      .execute();
}

}  // namespace heliograph::cli
