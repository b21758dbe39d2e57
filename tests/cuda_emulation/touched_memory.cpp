#include "touched_memory.hpp"

#include <cerrno>
#include <functional>
#include <mutex>

#include "device_memory.hpp"
#include "signals.hpp"

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
  static std::once_flag once;
  std::call_once(once, take_signal, SIGSEGV, &on_touch, std::ref(before_us));
}

void answer_touches(DeviceMemory* memory) { answering = memory; }

bool works_for_device() { return answering != nullptr; }

}  // namespace heliograph::cuda_emulation
