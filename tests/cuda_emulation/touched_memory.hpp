#pragma once

#include <signal.h>

namespace heliograph::cuda_emulation {

class DeviceMemory;

/// From now on a touch of memory that is not there ends the process, which says why, unless the
/// memory that answers for the thread opens it.
void watch_touches();
/// Has `memory` answer for the calling thread, which holds the runtime's lock; null: nobody does.
void answer_touches(DeviceMemory* memory);
/// Whether some does: the thread runs what a device would. Safe in a signal's handler.
bool works_for_device();

/// In a handler of a signal: says `text`, and has the signal come once more when the handler
/// returns, for `before`: what raised it does so again, unless somebody sent it.
void hand_back(const siginfo_t& info, const char* text, const struct sigaction& before);
inline bool is_sent(const siginfo_t& info) { return info.si_code <= 0; }

}  // namespace heliograph::cuda_emulation
