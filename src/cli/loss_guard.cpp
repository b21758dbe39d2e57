#include "cli/loss_guard.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <system_error>
#include <utility>

#include "cli/signals.hpp"
#include "cli/text.hpp"
#include "heliograph/error.hpp"
#include "train/run/output_file.hpp"

namespace heliograph::cli {
namespace {

/// Must leave time to report: mpirun kills the rest of a run one second after it notices a loss.
constexpr std::chrono::duration<double> kGrace{0.4};
constexpr std::chrono::duration<double> kRecordTime{0.3};
constexpr double kLookSeconds = 0.05;

/// Runs `action`, but does not wait long for a disk that does not answer.
void run_in_time(std::function<void()> action) {
  std::packaged_task<void()> task(std::move(action));
  const std::future<void> done = task.get_future();
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error&) {
    return;  // There are no more threads, and this one must not wait.
  }
  done.wait_for(kRecordTime);
}

}  // namespace

LossGuard::LossGuard(Processes& processes, std::function<std::string()> advice)
    : processes_(processes), advice_(std::move(advice)) {
  if (processes.joins_others()) thread_ = std::thread([this] { watch(); });
}

LossGuard::~LossGuard() {
  dismiss();
  if (thread_.joinable()) thread_.join();
}

LossGuard::Recording::Recording(LossGuard& guard, std::function<void()> record) : guard_(guard) {
  guard_.set_record(std::move(record));
}

LossGuard::Recording::~Recording() { guard_.set_record({}); }

void LossGuard::set_record(std::function<void()> record) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !acting_; });
  record_ = std::move(record);
}

void LossGuard::dismiss() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !acting_; });
    dismissed_ = true;
  }
  changed_.notify_all();
}

void LossGuard::limit(const std::string& activity, double seconds) {
  const std::lock_guard lock(mutex_);
  activity_ = activity;
  seconds_ = seconds;
  begin_ = std::chrono::steady_clock::now();
}

void LossGuard::watch() {
  while (!processes_.wait_for_failure(kLookSeconds)) {
    const std::lock_guard lock(mutex_);
    if (dismissed_) return;
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin_;
    if (seconds_ == 0 || taken.count() <= seconds_) continue;
    processes_.fail(ErrorCode::resource,
                    fmt::format("{} takes longer than --timeout, {} s", activity_, seconds_));
  }
  settle_own_signal();
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, kGrace, [this] { return dismissed_; })) return;
  acting_ = true;
  lock.unlock();
  report_and_leave();
}

void LossGuard::report_and_leave() {
  int code = static_cast<int>(ErrorCode::peer_lost);
  try {
    const bool reports = processes_.reports();
    const bool lost = processes_.lost();
    const ErrorCode failure = processes_.failure_code();  // Of the failure that is reported.
    code = exit_code(failure);
    if (reports && failure != ErrorCode::interrupted) {  // `record_` reports a signal.
      const std::string advice = lost && processes_.lowest_survivor() ? advice_() : "";
      write_past_locks(fmt::format("{}heliograph: error: {}{}{}\n",
                                   ::isatty(STDERR_FILENO) != 0 ? "\n" : "",
                                   processes_.failure_text(), advice.empty() ? "" : "; ", advice));
    }
    if (record_) run_in_time(std::move(record_));
    if (lost) processes_.leave_together();
  } catch (...) {
    write_past_locks("heliograph: error: a rank was lost, and no memory is left to say more\n");
  }
  run_in_time([] { abandon_files(false); });
  _exit(code);
}

}  // namespace heliograph::cli
