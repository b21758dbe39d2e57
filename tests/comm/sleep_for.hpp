#pragma once

#include <chrono>
#include <thread>

namespace heliograph::test {

inline void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace heliograph::test
