#pragma once

#include <chrono>

namespace heliograph {

/// A rank's wall time in each phase, in seconds since the last reset.
struct PhaseClock {
  double aggregate = 0, gemm = 0, encode = 0, exposed_comm = 0, allreduce = 0;
};

/// Adds the wall time of its own lifetime to one phase of a PhaseClock.
class PhaseTimer {
 public:
  explicit PhaseTimer(double& phase) : phase_(phase), begin_(Clock::now()) {}
  ~PhaseTimer() { phase_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& phase_;
  Clock::time_point begin_;
};

}  // namespace heliograph
