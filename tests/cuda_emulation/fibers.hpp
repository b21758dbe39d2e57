#pragma once

#include <cstddef>
#include <functional>

namespace heliograph::cuda_emulation {

/// A stack on which functions run one after another, each until it waits or ends. Only the CPU
/// thread that made it may use it.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs `body` from its beginning until it waits or ends.
  void start(const std::function<void()>& body);
  /// Continues after the wait.
  void resume();
  /// Called on a fiber: returns to the caller of start() or resume().
  static void wait();
  /// Called on a fiber: waits, and continues `next`, which must be waiting. The caller of start()
  /// or resume() goes on when a fiber calls wait() or ends.
  static void wait_and_resume(Fiber& next);

 private:
  [[noreturn]] static void enter();

  std::byte* memory_;
  void* end_;  ///< Of the stack, while the fiber does not run.
  const std::function<void()>* body_ = nullptr;
};

}  // namespace heliograph::cuda_emulation
