#pragma once

namespace heliograph::cuda_emulation {

/// From now on a misaligned access of a kernel, which is compiled to trap there as a device does,
/// ends the process, which says why.
void watch_alignment();

}  // namespace heliograph::cuda_emulation
