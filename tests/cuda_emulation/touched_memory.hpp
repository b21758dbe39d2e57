#pragma once

namespace heliograph::cuda_emulation {

class DeviceMemory;

/// From now on a touch of memory that is not there ends the process, which says why, unless the
/// memory that answers for the thread opens it.
void watch_touches();
/// Has `memory` answer for the calling thread, which holds the runtime's lock; null: nobody does.
void answer_touches(DeviceMemory* memory);
/// Whether some does: the thread runs what a device would. Safe in a signal's handler.
bool works_for_device();

}  // namespace heliograph::cuda_emulation
