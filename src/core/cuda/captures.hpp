#pragma once

#include <mutex>
#include <shared_mutex>

namespace heliograph::cuda {

/// To be held while a stream of `device` is captured. A capture is its thread's own: CUDA lets
/// other threads allocate and use their streams meanwhile, but refuses to wait for a device as a
/// whole, and that ends the captures on it.
std::shared_lock<std::shared_mutex> hold_for_capture(int device);

/// To be held during calls that may wait for `device` as a whole: waits for captures to end.
/// One lock for each device, as such a wait may need messages of ranks on others, which capture.
std::unique_lock<std::shared_mutex> hold_off_captures(int device);

}  // namespace heliograph::cuda
