#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "heliograph/error.hpp"

namespace heliograph::cli {

/// "SIGINT", "SIGTERM" or "SIGHUP": the signals that stop a run.
const char* signal_name(int signal);

/// A signal to stop that this process has got, even if its watch has not yet acted upon it, or 0.
/// Another process that got it as well may have stopped the run sooner. Once it is not 0, it stays.
int own_signal();

/// Later signals leave own_signal() as it is. Call it once the run has failed: a launcher then
/// sends signals to end the other processes.
void settle_own_signal();

/// The name of the signal that has stopped the processes of a run: that of `own_signal`, or "a
/// signal to another process".
std::string stopping_signal();

/// The exit code of a process that ends because of an error. If another process was interrupted,
/// one that has got a signal as well ends with its own.
int exit_code(ErrorCode code);

/// Makes SIGINT, SIGTERM and SIGHUP, unless they are ignored, end the process at once with a
/// message and exit code 130, 143 or 129, until SignalWatch::block. Call it first in main.
void end_at_signals();

/// Ends the process with a message and exit code 128 + `signal`.
[[noreturn]] void end_at_once(int signal);

/// What a SignalWatch calls, on the watch's own thread.
struct SignalActions {
  std::function<void(int)> stop;   ///< Asks the run to stop, after this signal.
  std::function<void(int)> force;  ///< Prepares for the forced end after this signal.
  std::function<void()> save;      ///< Asks the run to save a checkpoint and to continue.
  /// Seconds from this first signal to the forced end; nothing: only a second signal forces it.
  std::function<std::optional<double>(int)> grace_seconds;
  /// Whether a signal that stops is a request to stop; may be left out if all are.
  std::function<bool()> is_request = {};
};

/// Time in which a process that gets a signal notices that another one has ended: a launcher
/// signals the rest of a run of which it has lost a process.
inline constexpr double kLossSeconds = 0.1;

/// Waits for SIGINT, SIGTERM, SIGHUP and SIGUSR1 on a thread of its own, while it lives.
///
/// SIGUSR1 calls `save`. The first of the others calls `stop`. If a second one arrives (SIGTERM or
/// SIGHUP: not within half a second of the same signal), or if the watch still lives after the
/// grace period, `force` is called and the process ends at once with exit code 128 + the first
/// signal. Make it before other threads start, so that they inherit the blocked signals.
class SignalWatch {
 public:
  explicit SignalWatch(SignalActions actions);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Blocks the signals in this thread and in threads that it starts later. Call it before any
  /// thread that must start before the watch. A signal that is blocked is kept for the watch.
  static void block();

  /// A blocked signal to stop that waits for a watch, or 0.
  static int waiting();

 private:
  void wait();
  int next_signal(std::optional<double> seconds);

  SignalActions actions_;
  int request_ = 0;  ///< The first signal that is a request to stop. Of the watch's thread.
  std::chrono::steady_clock::time_point requested_at_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace heliograph::cli
