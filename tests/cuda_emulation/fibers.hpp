#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace heliograph::cuda_emulation {

/// A stack of its own on which functions run one after another, each until it waits or ends.
/// Belongs to the CPU thread that made it.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs `body` from its beginning until it waits or ends.
  void start(const std::function<void()>& body);
  /// Goes on behind the wait.
  void resume();
  /// Of the function that runs on a fiber: back to who started or resumed it.
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
