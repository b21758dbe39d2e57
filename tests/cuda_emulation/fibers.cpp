#include "fibers.hpp"

#include <sys/mman.h>

#include <new>

/// Pushes the registers that a function must preserve, stores the end of the stack to `*from`, and
/// returns to where the stack `to` was left. swapcontext would also ask the kernel for the signal
/// mask.
extern "C" void heliograph_switch_stack(void** from, void* to);

#if defined(__x86_64__)
asm(R"(
.pushsection .text
.globl heliograph_switch_stack
.hidden heliograph_switch_stack
.type heliograph_switch_stack, @function
heliograph_switch_stack:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.popsection
)");
#elif defined(__aarch64__)
asm(R"(
.macro heliograph_registers instruction
  \instruction x19, x20, [sp]
  \instruction x21, x22, [sp, #16]
  \instruction x23, x24, [sp, #32]
  \instruction x25, x26, [sp, #48]
  \instruction x27, x28, [sp, #64]
  \instruction x29, x30, [sp, #80]
  \instruction d8, d9, [sp, #96]
  \instruction d10, d11, [sp, #112]
  \instruction d12, d13, [sp, #128]
  \instruction d14, d15, [sp, #144]
.endm
.pushsection .text
.globl heliograph_switch_stack
.hidden heliograph_switch_stack
.type heliograph_switch_stack, %function
heliograph_switch_stack:
  sub sp, sp, #160
  heliograph_registers stp
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  heliograph_registers ldp
  add sp, sp, #160
  ret
.popsection
)");
#else
#error "CUDA is emulated on x86-64 and 64-bit Arm only"
#endif

namespace heliograph::cuda_emulation {
namespace {

constexpr std::size_t kGuard = 1 << 14;
constexpr std::size_t kStack = 1 << 17;

// The words of a stack on which nothing has run yet, and which of them holds the return address.
#ifdef __x86_64__
constexpr int kFirstWords = 8, kReturnAt = 6;  // The last is the return address of `enter`.
#else
constexpr int kFirstWords = 20, kReturnAt = 11;
#endif

thread_local Fiber* running = nullptr;
thread_local void* outside;

}  // namespace

Fiber::Fiber()
    : memory_(static_cast<std::byte*>(mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
  if (memory_ == MAP_FAILED || mprotect(memory_, kGuard, PROT_NONE) != 0) throw std::bad_alloc();
  void** end = reinterpret_cast<void**>(memory_ + kGuard + kStack) - kFirstWords;
  end[kReturnAt] = reinterpret_cast<void*>(&Fiber::enter);
  end_ = end;
}

Fiber::~Fiber() { munmap(memory_, kGuard + kStack); }

void Fiber::enter() {
  while (true) {
    (*running->body_)();
    wait();  // start() takes it from here
  }
}

void Fiber::start(const std::function<void()>& body) {
  body_ = &body;
  resume();
}

void Fiber::resume() {
  running = this;
  heliograph_switch_stack(&outside, end_);
}

void Fiber::wait() { heliograph_switch_stack(&running->end_, outside); }

void Fiber::wait_and_resume(Fiber& next) {
  Fiber& self = *running;
  running = &next;
  heliograph_switch_stack(&self.end_, next.end_);
}

}  // namespace heliograph::cuda_emulation
