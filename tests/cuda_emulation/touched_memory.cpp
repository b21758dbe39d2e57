#include "touched_memory.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "device_memory.hpp"

namespace heliograph::cuda_emulation {
namespace {

constinit thread_local DeviceMemory* answering = nullptr;
struct sigaction before_us;

// Runs on the stack of a device thread's fiber, so it may need little of it.
void on_touch(int, siginfo_t* info, void*) {
  const int error = errno;
  if (is_sent(*info)) {
    hand_back(*info, "", before_us);
  } else if (answering == nullptr || !answering->open_touched(info->si_addr)) {
    hand_back(*info,
              "emulated CUDA device: memory was touched that is not there: device memory by the "
              "host, or by a kernel what lies behind it or on another device (or a plain wild "
              "pointer)\n",
              before_us);
  }
  errno = error;
}

}  // namespace

void watch_touches() {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_sigaction = &on_touch;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGSEGV, &action, &before_us) == 0;
  }();
  (void)installed;
}

void answer_touches(DeviceMemory* memory) { answering = memory; }

bool works_for_device() { return answering != nullptr; }

void hand_back(const siginfo_t& info, const char* text, const struct sigaction& before) {
  const auto written = write(STDERR_FILENO, text, std::strlen(text));
  (void)written;
  sigaction(info.si_signo, &before, nullptr);
  if (is_sent(info)) raise(info.si_signo);
}

}  // namespace heliograph::cuda_emulation
