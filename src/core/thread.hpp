#pragma once

#include <pthread.h>

#include <functional>
#include <string>

namespace heliograph {

/// A joining thread whose stack does not depend on the limits of the process. `body` must not
/// throw.
class Thread {
 public:
  /// Starts `body`; `name` is cut to 15 characters. Throws Error(resource) if the system refuses.
  Thread(std::string name, std::function<void()> body);
  ~Thread();
  Thread(Thread&& other) noexcept;
  Thread& operator=(Thread&&) = delete;
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void join() noexcept;

  static constexpr std::size_t kStackBytes = std::size_t{8} << 20;

 private:
  pthread_t handle_{};
  bool running_ = false;
};

/// While it lives, timed waits of its thread end within a microsecond of their time. Linux rounds
/// them up by 50 us otherwise.
class FineTimer {
 public:
  FineTimer() noexcept;
  ~FineTimer();
  FineTimer(const FineTimer&) = delete;
  FineTimer& operator=(const FineTimer&) = delete;

 private:
  const int before_;
};

/// Number of CPUs that the calling thread may run on, which taskset and CPU sets reduce.
int allowed_cpus() noexcept;

/// Number of threads that can compute at the same time: allowed_cpus(), or the CPU quota of the
/// process's control groups, as containers set it, if that is less. At least 1.
int usable_cores();

/// Binds the calling thread, and threads that it starts, to share `share` of `shares` of its CPUs:
/// a run of neighbouring CPUs or, with more shares than CPUs, a single CPU that several shares use.
/// Returns false and changes nothing if the system does not allow it.
bool keep_to_share(int share, int shares) noexcept;

}  // namespace heliograph
