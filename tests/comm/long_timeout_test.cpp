#include <gtest/gtest.h>

#include "comm/beside_spinning.hpp"
#include "comm/collectives.hpp"
#include "comm/threads/transport.hpp"

namespace heliograph {
namespace {

// These seconds are more nanoseconds than 64 bits hold.
TEST(LongTimeout, WaitsAsleep) {
  ThreadTransportOptions options;
  options.timeout_seconds = 1e12;
  run_ranks(2, options, [](Communicator& comm) {
    if (comm.rank() == 1) {
      EXPECT_LT(test::taken_beside_spinning(0.3), test::kSpinsToo);
    }
    barrier(comm, Channel::halo);
  });
}

}  // namespace
}  // namespace heliograph
