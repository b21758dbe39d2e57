#pragma once

#include <ctime>

#include "comm/clock.hpp"

namespace heliograph::test {

/// Spins for `seconds` and returns the processor time that the other threads of this process take
/// meanwhile, as a share of what this one gets: near 0 if they sleep, and about 1 for each that
/// spins too, however busy the machine is.
inline double taken_beside_spinning(double seconds) {
  const auto read = [](clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double all = read(CLOCK_PROCESS_CPUTIME_ID), own = read(CLOCK_THREAD_CPUTIME_ID);
  for (const double end = monotonic_seconds() + seconds; monotonic_seconds() < end;) {
  }
  const double spun = read(CLOCK_THREAD_CPUTIME_ID) - own;
  return (read(CLOCK_PROCESS_CPUTIME_ID) - all) / spun - 1;
}

/// Above the share of threads that sleep, and below that of one that spins.
inline constexpr double kSpinsToo = 0.25;

}  // namespace heliograph::test
