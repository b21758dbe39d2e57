#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "train/processes.hpp"

namespace heliograph::cli {

/// Ends this process after another rank was lost, even if this process's own threads load, compute
/// or write for long before they wait for that rank. After a short grace period it reports the
/// loss, if this process is the one to report it, and exits at once with the failure's code.
class LossGuard {
 public:
  /// `processes` must outlive the guard and may join later, so that the guard also covers joining.
  /// `advice`: says how to go on after a loss; the lowest survivor adds it to its report.
  LossGuard(Processes& processes, std::function<std::string()> advice);
  ~LossGuard();
  LossGuard(const LossGuard&) = delete;
  LossGuard& operator=(const LossGuard&) = delete;

  /// From now on, until the next call, this process fails with Error(resource) if `activity` takes
  /// longer than `seconds`, for which the other processes wait; 0 sets no limit. Does nothing if
  /// there are none.
  void limit(const std::string& activity, double seconds);
  /// While it lives, the guard calls `record` on another thread before it ends the process, and
  /// waits 0.3 s for it. Its destructor does not return if the guard is ending the process.
  class Recording {
   public:
    Recording(LossGuard& guard, std::function<void()> record);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    LossGuard& guard_;
  };
  /// The process ends by itself from here on. Does not return if the guard is ending it.
  void dismiss();
  /// Reports the loss and ends the process together with the other survivors.
  [[noreturn]] void report_and_leave();

 private:
  void set_record(std::function<void()> record);
  void watch();

  Processes& processes_;
  const std::function<std::string()> advice_;
  std::mutex mutex_;
  std::function<void()> record_;
  std::string activity_;
  double seconds_ = 0;
  std::chrono::steady_clock::time_point begin_;
  std::condition_variable changed_;
  bool dismissed_ = false;
  bool acting_ = false;
  std::thread thread_;
};

}  // namespace heliograph::cli
