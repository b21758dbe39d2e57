#pragma once

#include <pthread.h>

#include <functional>
#include <string>

namespace heliograph {

/// A joining thread with a stack large enough for the matrix product's packing buffers, which
/// live there so that the steady state allocates nothing. `body` must not throw.
class Thread {
 public:
  /// Throws Error(resource) if the system refuses. `name` is cut to 15 characters.
  Thread(std::string name, std::function<void()> body);
  ~Thread();
  Thread(Thread&& other) noexcept;
  Thread& operator=(Thread&&) = delete;
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void join() noexcept;

  static constexpr std::size_t kStackBytes = std::size_t{32} << 20;

 private:
  pthread_t handle_{};
  bool running_ = false;
};

/// CPUs that the calling thread may run on: fewer than the machine has under taskset or in a
/// container with a CPU set.
int usable_cores() noexcept;

/// From now on the calling thread, and threads that it starts, run on share number `share` of
/// `shares` of its CPUs: neighbouring ones, or one that other shares have too where there are more
/// shares than CPUs. False, and nothing is changed, if the system does not allow it.
bool keep_to_share(int share, int shares) noexcept;

}  // namespace heliograph
