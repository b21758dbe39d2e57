#include "misaligned_access.hpp"

#include <functional>
#include <mutex>

#include "signals.hpp"
#include "touched_memory.hpp"

namespace heliograph::cuda_emulation {
namespace {

struct sigaction before_us;

/// Whether the instruction is the one by which compilers trap, rather than one that the CPU lacks.
bool is_trap([[maybe_unused]] const void* instruction) {
#if defined(__x86_64__)
  const auto* code = static_cast<const unsigned char*>(instruction);
  return code[0] == 0x0f && code[1] == 0x0b;
#else
  return false;
#endif
}

void on_illegal_instruction(int, siginfo_t* info, void*) {
  hand_back(*info,
            works_for_device() && !is_sent(*info) && is_trap(info->si_addr)
                ? "emulated CUDA device: a kernel touched memory at an address that is no multiple "
                  "of what it reads or writes there\n"
                : "",
            before_us);
}

}  // namespace

void watch_alignment() {
  static std::once_flag once;
  std::call_once(once, take_signal, SIGILL, &on_illegal_instruction, std::ref(before_us));
}

}  // namespace heliograph::cuda_emulation
