#include "comm/message_groups.hpp"

#include <gtest/gtest.h>

#include <array>

#include "support/allocations.hpp"

namespace heliograph::test {
namespace {

TEST(MessageGroups, GatherUntilTheyLeaveAndAreDoneInOrder) {
  std::byte bytes[8];
  const std::array<SendMessage, 2> sends{{{1, bytes, 8}, {2, bytes, 0}}};
  const std::array<RecvMessage, 1> receives{{{2, bytes, 4}}};
  MessageGroups groups(Channel::halo);
  EXPECT_FALSE(groups.gathers());
  EXPECT_FALSE(groups.known(1));

  EXPECT_EQ(groups.add(sends, {}), 1U);
  EXPECT_EQ(groups.add({}, receives), 1U) << "the same group";
  ASSERT_EQ(groups.sends().size(), 1U) << "the empty one is left out";
  EXPECT_EQ(groups.receives().size(), 1U);
  EXPECT_TRUE(groups.known(1));
  EXPECT_FALSE(groups.done(1));

  groups.leave();
  EXPECT_FALSE(groups.gathers());
  EXPECT_EQ(groups.add({}, receives), 2U);
  groups.leave();
  EXPECT_EQ(groups.under_way(), 2U);
  EXPECT_EQ(groups.describe_stall(3),
            "waited 3 s without progress for bytes from rank 2 on the halo channel, or for the "
            "other message of its group of 2");

  groups.pop_oldest();
  EXPECT_TRUE(groups.done(1));
  EXPECT_FALSE(groups.done(2));
  EXPECT_EQ(groups.describe_oldest(), "bytes from rank 2 on the halo channel");
  groups.pop_oldest();
  EXPECT_TRUE(groups.done(2));
  EXPECT_EQ(groups.under_way(), 0U);
}

TEST(MessageGroups, NothingOfAnEmptyBatchIsLeft) {
  const std::array<SendMessage, 1> sends{{{1, nullptr, 0}}};
  MessageGroups groups(Channel::halo);
  EXPECT_EQ(groups.add(sends, {}), 0U);
  EXPECT_FALSE(groups.gathers());
}

TEST(MessageGroups, RoundsAfterTheFirstAllocateNothing) {
  if (!allocations_are_counted()) GTEST_SKIP() << "this build owns the allocator";
  std::byte bytes[8];
  MessageGroups groups(Channel::halo);
  const auto round = [&] {
    for (int group = 0; group < 20; ++group) {
      for (int peer = 1; peer < 4; ++peer) {
        const SendMessage send{peer, bytes, 8};
        const RecvMessage receive{peer, bytes, 8};
        groups.add({&send, 1}, {&receive, 1});
      }
      groups.leave();
    }
    while (groups.under_way() > 0) groups.pop_oldest();
  };
  for (int warmup = 0; warmup < 4; ++warmup) round();
  const std::int64_t before = allocations();
  round();
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace heliograph::test
