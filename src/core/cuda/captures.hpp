#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <shared_mutex>

namespace heliograph::cuda {

/// The lock of `device`. Captures hold it shared, so several can run at once. Calls that may wait
/// for the whole device hold it exclusively, so none of them runs during a capture.
inline std::shared_mutex& capture_lock(int device) {
  // Far more locks than devices; devices may share one.
  static std::array<std::shared_mutex, 64> locks;
  return locks[static_cast<std::size_t>(device) % locks.size()];
}

/// The lock to hold while a stream of `device` is captured. Other threads may allocate and use
/// their own streams meanwhile, but a wait for the whole device would fail and end its captures.
inline std::shared_lock<std::shared_mutex> hold_for_capture(int device) {
  return std::shared_lock(capture_lock(device));
}

/// The lock to hold during calls that may wait for the whole of `device`; waits for its captures to
/// end. Such calls may need messages of ranks that capture on other devices.
inline std::unique_lock<std::shared_mutex> hold_off_captures(int device) {
  return std::unique_lock(capture_lock(device));
}

}  // namespace heliograph::cuda
