#pragma once

#include <signal.h>

namespace heliograph::cuda_emulation {

class DeviceMemory;

/// From now on a touch of memory that is not there ends the process, which says why, unless the
/// memory that answers for the thread opens it.
void watch_touches();
/// Has `memory` answer for the calling thread, which holds the runtime's lock; null: nobody does.
void answer_touches(DeviceMemory* memory);

/// In a handler of `signal`: says `text`, and lets what is returned to raise it once more, for
/// `before`.
void hand_back(int signal, const char* text, const struct sigaction& before);

}  // namespace heliograph::cuda_emulation
