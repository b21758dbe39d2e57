#include <gtest/gtest.h>

#include <memory>

#include "comm/collectives.hpp"
#include "comm/link_names.hpp"
#include "comm/threads/transport.hpp"
#include "comm/transport_epochs.hpp"
#include "support/allocations.hpp"

namespace heliograph {
namespace {

TEST(TransportSteadyState, TheCounterCounts) {
  if (!test::allocations_are_counted()) GTEST_SKIP() << "sanitizers own the allocator";
  const std::int64_t before = test::allocations();
  const auto something = std::make_unique<int>(3);
  EXPECT_EQ(*something, 3);
  EXPECT_GT(test::allocations(), before);
}

class SteadyState : public testing::TestWithParam<LinkShape> {};
INSTANTIATE_TEST_SUITE_P(Links, SteadyState,
                         testing::Values(LinkShape{0, 0}, LinkShape{0, 50}, LinkShape{10, 20}),
                         test::name_of_link);

TEST_P(SteadyState, AllocatesNothing) {
  if (!test::allocations_are_counted()) GTEST_SKIP() << "sanitizers own the allocator";
  ThreadTransportOptions options;
  options.link = GetParam();
  run_ranks(4, options, [](Communicator& comm) {
    test::TransportEpochs epochs(comm);
    epochs.run(5);
    const std::int64_t before = test::allocations();
    barrier(comm, Channel::evaluation);
    epochs.run(30);
    EXPECT_EQ(test::allocations(), before);
    barrier(comm, Channel::evaluation);
  });
}

}  // namespace
}  // namespace heliograph
