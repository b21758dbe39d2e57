#pragma once

namespace heliograph::cuda_emulation {

class DeviceMemory;

/// Installs signal handlers. On an access to inaccessible memory that the memory of
/// answer_touches() does not open, and on a misaligned access by a kernel, the process prints the
/// reason and dies. (Kernels are compiled so that misaligned accesses trap, as on a device.)
void watch_faults();

/// Sets the memory that opens pieces when the calling thread touches them. The thread holds the
/// runtime's lock and does work of a device. Null opens nothing.
void answer_touches(DeviceMemory* memory);

}  // namespace heliograph::cuda_emulation
