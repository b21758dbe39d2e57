#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/thread.hpp"

namespace heliograph {

/// The time between two looks at what other ranks do: at first none, then ever longer.
class Rest {
 public:
  void operator()() {
    if (++polls_ <= kPollsBeforeRest) return;
    const FineTimer timer;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    seconds_ = std::min(seconds_ * 1.5, kLongest);
  }

 private:
  static constexpr int kPollsBeforeRest = 200;
  static constexpr double kFirst = 5e-6;
  static constexpr double kLongest = 50e-6;
  int polls_ = 0;
  double seconds_ = kFirst;
};

}  // namespace heliograph
