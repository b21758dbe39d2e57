#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <shared_mutex>

namespace heliograph::cuda {

inline std::shared_mutex& capture_lock(int device) {
  // No machine has as many devices; were there more, some would share a lock.
  static std::array<std::shared_mutex, 64> locks;
  return locks[static_cast<std::size_t>(device) % locks.size()];
}

/// To be held while a stream of `device` is captured. A capture is its thread's own: CUDA lets
/// other threads allocate and use their streams meanwhile, but refuses to wait for a device as a
/// whole, and that ends the captures on it.
inline std::shared_lock<std::shared_mutex> hold_for_capture(int device) {
  return std::shared_lock(capture_lock(device));
}

/// To be held during calls that may wait for `device` as a whole: waits for captures to end.
/// One lock for each device, as such a wait may need messages of ranks on others, which capture.
inline std::unique_lock<std::shared_mutex> hold_off_captures(int device) {
  return std::unique_lock(capture_lock(device));
}

}  // namespace heliograph::cuda
