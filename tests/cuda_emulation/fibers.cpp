// Checked jumps refuse to change stacks.
#undef _FORTIFY_SOURCE

#include "fibers.hpp"

#include <sys/mman.h>

#include <new>

namespace heliograph::cuda_emulation {
namespace {

constexpr std::size_t kGuard = 1 << 14;
constexpr std::size_t kStack = 1 << 17;

thread_local Fiber* running = nullptr;
thread_local jmp_buf outside;

}  // namespace

Fiber::Fiber()
    : stack_(static_cast<std::byte*>(mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
  if (stack_ == MAP_FAILED || mprotect(stack_, kGuard, PROT_NONE) != 0) throw std::bad_alloc();
  getcontext(&first_);
  first_.uc_stack.ss_sp = stack_ + kGuard;
  first_.uc_stack.ss_size = kStack;
  first_.uc_link = nullptr;
  makecontext(&first_, &Fiber::enter, 0);
}

Fiber::~Fiber() { munmap(stack_, kGuard + kStack); }

void Fiber::enter() {
  while (true) {
    (*running->body_)();
    wait();  // start() takes it from here
  }
}

void Fiber::start(const std::function<void()>& body) {
  body_ = &body;
  run();
}

void Fiber::resume() { run(); }

// Jumps, because changing contexts asks the kernel for the signal mask each time.
void Fiber::run() {
  running = this;
  if (_setjmp(outside) != 0) return;
  if (entered_) _longjmp(inside_, 1);
  entered_ = true;
  setcontext(&first_);
}

void Fiber::wait() {
  if (_setjmp(running->inside_) == 0) _longjmp(outside, 1);
}

}  // namespace heliograph::cuda_emulation
