#pragma once

#include <chrono>

namespace heliograph {

/// Seconds on a monotonic clock, the one of every deadline of comm.
inline double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A timed wait sleeps for at most so many seconds at a time: nanoseconds of a far deadline
/// overflow.
inline constexpr double kLongestSleep = 3600;

}  // namespace heliograph
