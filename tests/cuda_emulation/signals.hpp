#pragma once

#include <signal.h>

namespace heliograph::cuda_emulation {

/// Has `handler` answer a signal from now on; `before` is what did.
void take_signal(int number, void (*handler)(int, siginfo_t*, void*), struct sigaction& before);

/// In a handler of a signal: says `text`, and has the signal come once more when the handler
/// returns, for `before`: what raised it does so again, unless somebody sent it.
void hand_back(const siginfo_t& info, const char* text, const struct sigaction& before);
inline bool is_sent(const siginfo_t& info) { return info.si_code <= 0; }

}  // namespace heliograph::cuda_emulation
