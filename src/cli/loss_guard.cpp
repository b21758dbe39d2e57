#include "cli/loss_guard.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "cli/text.hpp"
#include "heliograph/error.hpp"
#include "train/run/output_file.hpp"

namespace heliograph::cli {
namespace {

/// Must leave time to report: mpirun kills the rest of a run one second after it notices a loss.
constexpr std::chrono::duration<double> kGrace{0.4};
constexpr double kLookSeconds = 0.05;

}  // namespace

LossGuard::LossGuard(Processes& processes, std::function<std::string()> advice)
    : processes_(processes), advice_(std::move(advice)) {
  if (processes.joins_others()) thread_ = std::thread([this] { watch(); });
}

LossGuard::~LossGuard() {
  dismiss();
  if (thread_.joinable()) thread_.join();
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
    code =
        static_cast<int>(processes_.failure_code());  // The code of the failure that is reported.
    if (reports) {
      const std::string advice = lost && processes_.lowest_survivor() ? advice_() : "";
      write_past_locks(fmt::format("{}heliograph: error: {}{}{}\n",
                                   ::isatty(STDERR_FILENO) != 0 ? "\n" : "",
                                   processes_.failure_text(), advice.empty() ? "" : "; ", advice));
    }
    if (lost) processes_.leave_together();
  } catch (...) {
    write_past_locks("heliograph: error: a rank was lost, and no memory is left to say more\n");
  }
  abandon_files(false);
  _exit(code);
}

}  // namespace heliograph::cli
