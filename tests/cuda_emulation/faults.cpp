#include "faults.hpp"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>

#include "device_memory.hpp"

namespace heliograph::cuda_emulation {
namespace {

constinit thread_local DeviceMemory* answering = nullptr;
struct sigaction touch_before, trap_before;

/// Whether the instruction is the one by which compilers trap, rather than one that the CPU lacks.
bool is_trap([[maybe_unused]] const void* instruction) {
#if defined(__x86_64__)
  const auto* code = static_cast<const unsigned char*>(instruction);
  return code[0] == 0x0f && code[1] == 0x0b;
#else
  return false;
#endif
}

// Runs on the stack of a device thread's fiber, so it may need little of it. When it returns, what
// raised the signal raises it again, now for the handler that was there before.
void on_fault(int number, siginfo_t* info, void*) {
  const int error = errno;
  const bool is_sent = info->si_code <= 0;  // By a process, rather than raised by an instruction.
  const char* said = "";
  if (number == SIGSEGV && !is_sent) {
    if (answering != nullptr && answering->open_touched(info->si_addr)) {
      errno = error;
      return;
    }
    said =
        "emulated CUDA device: memory was touched that is not there: device memory by the host, or "
        "by a kernel what lies behind it or on another device (or a plain wild pointer)\n";
  } else if (number == SIGILL && !is_sent && answering != nullptr && is_trap(info->si_addr)) {
    said =
        "emulated CUDA device: a kernel touched memory at an address that is no multiple of what "
        "it "
        "reads or writes there\n";
  }
  (void)!write(STDERR_FILENO, said, std::strlen(said));
  sigaction(number, number == SIGSEGV ? &touch_before : &trap_before, nullptr);
  if (is_sent) raise(number);
  errno = error;
}

}  // namespace

void watch_faults() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = &on_fault;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSEGV, &action, &touch_before) != 0 ||
        sigaction(SIGILL, &action, &trap_before) != 0) {
      throw std::system_error(errno, std::generic_category(), "answering a signal");
    }
  });
}

void answer_touches(DeviceMemory* memory) { answering = memory; }

}  // namespace heliograph::cuda_emulation
