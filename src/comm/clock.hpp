#pragma once

#include <chrono>

namespace heliograph {

/// Seconds on a monotonic clock, the one of every deadline of comm.
inline double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The longest time, in seconds, for which a timed wait sleeps at once. A wait with a later
/// deadline sleeps repeatedly, because the deadline in nanoseconds could overflow 64 bits.
inline constexpr double kLongestSleep = 3600;

}  // namespace heliograph
