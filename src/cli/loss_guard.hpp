#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "train/processes.hpp"

namespace heliograph::cli {

/// Ends this process when another rank was lost and its own threads do not notice: they may load,
/// compute or write for long before they wait for that rank. After a short grace it reports what
/// was lost, if that is this process's to report, and exits at once with the failure's code.
class LossGuard {
 public:
  /// `processes` must outlive it, and may join afterwards: MPI can block meanwhile.
  explicit LossGuard(Processes& processes);
  ~LossGuard();
  LossGuard(const LossGuard&) = delete;
  LossGuard& operator=(const LossGuard&) = delete;

  /// From here on the process ends by itself; does not return if the guard ends it already.
  void dismiss();
  /// Reports the loss and ends the process with the other survivors.
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
