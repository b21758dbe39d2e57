#include "cli/signals.hpp"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <utility>

#include "cli/text.hpp"

namespace heliograph::cli {
namespace {

/// `timeout` and other supervisors signal a process and then its group. A user who presses Ctrl-C
/// twice means it.
constexpr std::chrono::milliseconds kOneRequest(500);

std::atomic<int> own = 0;  ///< See own_signal().
std::atomic<bool> settled = false;

/// Takes `signal` for the first that this process has got, if it is.
void note(int signal) {
  int none = 0;
  if (!settled) own.compare_exchange_strong(none, signal);
}

// In the order in which the kernel delivers those that are pending.
constexpr int kStoppingSignals[] = {SIGHUP, SIGINT, SIGTERM};

/// Of kStoppingSignals, those that are not ignored. Shells have background commands ignore SIGINT,
/// and nohup SIGHUP; sigwait() would take them anyway.
sigset_t stopping_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kStoppingSignals) {
    struct sigaction action {};
    const bool ignored = sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
    if (!ignored) sigaddset(&set, signal);
  }
  return set;
}

/// SIGUSR1, which also wakes the watching thread when the watch ends, and `stopping_signals`.
sigset_t watched_signals() {
  sigset_t set = stopping_signals();
  sigaddset(&set, SIGUSR1);
  return set;
}

timespec as_timespec(double seconds) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>((seconds - static_cast<double>(time.tv_sec)) * 1e9);
  return time;
}

}  // namespace

const char* signal_name(int signal) {
  return signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : "SIGHUP";
}

int own_signal() {
  note(SignalWatch::waiting());
  return own;
}

void settle_own_signal() {
  own_signal();
  settled = true;
}

std::string stopping_signal() {
  const int signal = own_signal();
  return signal != 0 ? signal_name(signal) : "a signal to another process";
}

int exit_code(ErrorCode code) {
  const int signal = own_signal();
  return code == ErrorCode::interrupted && signal != 0 ? 128 + signal : static_cast<int>(code);
}

void end_at_once(int signal) {
  char line[48] = "heliograph: stopped by ";
  write_past_locks(std::strcat(std::strcat(line, signal_name(signal)), "\n"));
  _exit(128 + signal);
}

void end_at_signals() {
  const sigset_t set = stopping_signals();
  for (const int signal : kStoppingSignals) {
    if (sigismember(&set, signal) == 1) std::signal(signal, end_at_once);
  }
  // The program that started this one may have blocked them.
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

SignalWatch::SignalWatch(SignalActions actions) : actions_(std::move(actions)) {
  block();
  thread_ = std::thread([this] { wait(); });
}

void SignalWatch::block() {
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

int SignalWatch::waiting() {
  sigset_t pending;
  const sigset_t watched = watched_signals();
  if (sigpending(&pending) != 0) return 0;
  for (const int signal : kStoppingSignals) {
    if (sigismember(&pending, signal) == 1 && sigismember(&watched, signal) == 1) return signal;
  }
  return 0;
}

SignalWatch::~SignalWatch() {
  done_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
}

/// Waits for a stopping signal and returns it, or 0 when the watch ends or `seconds` have passed.
/// Meanwhile each SIGUSR1 calls `save`.
int SignalWatch::next_signal(std::optional<double> seconds) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const sigset_t set = watched_signals();
  while (true) {
    siginfo_t ignored{};
    int signal = 0;
    if (seconds) {
      const double gone = std::chrono::duration<double>(Clock::now() - begin).count();
      if (gone >= *seconds) return 0;
      const timespec rest = as_timespec(*seconds - gone);
      signal = sigtimedwait(&set, &ignored, &rest);
    } else {
      signal = sigwaitinfo(&set, &ignored);
    }
    if (signal > 0 && signal != SIGUSR1) note(signal);
    if (done_) return 0;
    const auto now = Clock::now();
    const bool repeats =
        signal == request_ && signal != SIGINT && now - requested_at_ < kOneRequest;
    const bool stops = signal > 0 && signal != SIGUSR1 && !repeats;
    if (stops && (!actions_.is_request || actions_.is_request())) {
      if (request_ == 0) {
        request_ = signal;
        requested_at_ = now;
      }
      return signal;
    }
    if (signal == SIGUSR1) actions_.save();
  }
}

void SignalWatch::wait() {
  pthread_setname_np(pthread_self(), "signals");
  const int signal = next_signal(std::nullopt);
  if (done_) return;
  actions_.stop(signal);
  // Returns at a second signal, the end of the grace period or the end of the watch.
  const int second = next_signal(actions_.grace_seconds(signal));
  // By the end of that period, the first epoch may have ended.
  if (!done_ && second == 0 && !actions_.grace_seconds(signal)) next_signal(std::nullopt);
  if (done_) return;
  actions_.force(signal);
  _exit(128 + signal);
}

}  // namespace heliograph::cli
