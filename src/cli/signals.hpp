#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

namespace heliograph::cli {

/// What a watch calls, on its own thread.
struct SignalActions {
  std::function<void()> stop;      ///< Asks the run to end by itself.
  std::function<void(int)> force;  ///< The process ends right after, with 128 + this signal.
  std::function<void()> save;      ///< Asks the run to save itself and to go on.
  /// Seconds from the first signal to the forced end; none: only a second signal forces.
  std::function<std::optional<double>()> grace_seconds;
  /// Where given: false if a SIGINT or SIGTERM that has come is no request to stop.
  std::function<bool()> counts = {};
};

/// Waits for SIGINT, SIGTERM and SIGUSR1 on a thread of its own, while it lives.
///
/// SIGUSR1 calls `save`. The first of the others calls `stop`. If the watch is still alive after
/// the grace, or a second one of them arrives, `force` is called and the process ends at once with
/// 128 + the first signal: 130 or 143.
/// Make it before other threads start: they inherit the blocked signals.
class SignalWatch {
 public:
  explicit SignalWatch(SignalActions actions);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Blocks the signals in this thread and those that it starts, for threads that must be started
  /// before the watch. They wait for it.
  static void block();

  /// SIGINT or SIGTERM that has come and waits for a watch, or 0.
  static int waiting();

  /// The first signal that came, or 0.
  int received() const { return received_.load(); }

 private:
  void wait();
  int next_signal(std::optional<double> seconds);

  SignalActions actions_;
  std::atomic<int> received_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace heliograph::cli
