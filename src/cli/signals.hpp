#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace heliograph::cli {

/// Waits for SIGINT and SIGTERM on a thread of its own, while it lives.
///
/// The first signal calls `on_stop`, which asks the run to end by itself. If the watch is still
/// alive `grace_seconds` later, or a second signal arrives, `on_force` is called and the process
/// ends at once with 128 + the first signal: 130 or 143.
/// Make it before other threads start: they inherit the blocked signals.
class SignalWatch {
 public:
  SignalWatch(double grace_seconds, std::function<void()> on_stop,
              std::function<void(int)> on_force);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// The first signal that came, or 0.
  int received() const { return received_.load(); }

 private:
  void wait(double grace_seconds, const std::function<void()>& on_stop,
            const std::function<void(int)>& on_force);

  std::atomic<int> received_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace heliograph::cli
