#pragma once

namespace heliograph::cuda_emulation {

class DeviceMemory;

/// From now on the process dies, and says why, where memory is touched that is not there and that
/// the answering memory does not open, or where a kernel's access is misaligned (kernels are
/// compiled to trap there, as a device does).
void watch_faults();

/// Makes `memory` answer for the calling thread, which holds the runtime's lock and works for a
/// device from now on. Null: nobody answers.
void answer_touches(DeviceMemory* memory);

}  // namespace heliograph::cuda_emulation
