#include "cli/signals.hpp"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <utility>

namespace heliograph::cli {
namespace {

/// SIGUSR1 only wakes the watching thread when the watch ends. A signal that the caller had ignored
/// stays so: a shell does that to SIGINT for what a script runs in the background, and sigwait()
/// would take it all the same.
sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    const bool ignored = sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
    if (!ignored) sigaddset(&set, signal);
  }
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

SignalWatch::SignalWatch(double grace_seconds, std::function<void()> on_stop,
                         std::function<void(int)> on_force) {
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this, grace_seconds, stop = std::move(on_stop),
                         force = std::move(on_force)] { wait(grace_seconds, stop, force); });
}

SignalWatch::~SignalWatch() {
  done_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
}

void SignalWatch::wait(double grace_seconds, const std::function<void()>& on_stop,
                       const std::function<void(int)>& on_force) {
  const sigset_t set = watched_signals();
  int signal = 0;
  do {
    if (sigwait(&set, &signal) != 0) signal = 0;
    if (done_) return;
  } while (signal != SIGINT && signal != SIGTERM);
  received_ = signal;
  on_stop();
  const timespec grace = as_timespec(grace_seconds);
  // A second signal, the end of the grace, or the end of the watch: whichever is first.
  sigtimedwait(&set, nullptr, &grace);
  if (done_) return;
  on_force(signal);
  _exit(128 + signal);
}

}  // namespace heliograph::cli
