#pragma once

#include <setjmp.h>
#include <ucontext.h>

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

 private:
  static void enter();
  void run();

  std::byte* stack_;
  ucontext_t first_;
  jmp_buf inside_;
  bool entered_ = false;
  const std::function<void()>* body_ = nullptr;
};

}  // namespace heliograph::cuda_emulation
