#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "train/processes.hpp"

namespace heliograph::cli {

/// Ends this process after another rank was lost, even if this process's own threads load, compute
/// or write for long before they wait for that rank. After a short grace period it reports the
/// loss, if this process is the one to report it, and exits at once with the failure's code.
class LossGuard {
 public:
  /// `processes` must outlive the guard and may join later, so that the guard also covers joining.
  explicit LossGuard(Processes& processes);
  ~LossGuard();
  LossGuard(const LossGuard&) = delete;
  LossGuard& operator=(const LossGuard&) = delete;

  /// The process ends by itself from here on. Does not return if the guard is ending it.
  void dismiss();
  /// Reports the loss and ends the process together with the other survivors.
  [[noreturn]] void report_and_leave();

 private:
  void watch();

  Processes& processes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool dismissed_ = false;
  bool acting_ = false;
  std::thread thread_;
};

}  // namespace heliograph::cli
