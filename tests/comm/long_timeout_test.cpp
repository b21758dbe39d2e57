#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <thread>

#include "comm/collectives.hpp"
#include "comm/thread_transport.hpp"

namespace heliograph {
namespace {

double cpu_seconds_of_this_thread() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// More nanoseconds than 64 bits hold.
TEST(LongTimeout, WaitsAsleep) {
  ThreadTransportOptions options;
  options.timeout_seconds = 1e12;
  run_ranks(2, options, [](Communicator& comm) {
    if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const double before = cpu_seconds_of_this_thread();
    barrier(comm, Channel::halo);
    EXPECT_LT(cpu_seconds_of_this_thread() - before, 0.05);
  });
}

}  // namespace
}  // namespace heliograph
