#include "staleness/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace heliograph {
namespace {

ExchangeOptions options(int staleness, int sync_every, int warmup) {
  ExchangeOptions o;
  o.staleness = staleness;
  o.sync_every = sync_every;
  o.warmup_epochs = warmup;
  return o;
}

TEST(StalenessSchedule, ZeroIsAlwaysSynchronous) {
  const StalenessSchedule s(options(0, 0, 0));
  for (int e = 0; e < 10; ++e) EXPECT_EQ(s.lag(e), 0);
}

TEST(StalenessSchedule, AgeGrowsToTheBoundAfterEpochZero) {
  const StalenessSchedule s(options(3, 0, 0));
  const int expected[] = {0, 1, 2, 3, 3, 3};
  for (int e = 0; e < 6; ++e) EXPECT_EQ(s.lag(e), expected[e]) << e;
}

TEST(StalenessSchedule, SyncEveryStartsAgain) {
  const StalenessSchedule s(options(2, 4, 0));
  const int expected[] = {0, 1, 2, 2, 0, 1, 2, 2, 0, 1};
  for (int e = 0; e < 10; ++e) EXPECT_EQ(s.lag(e), expected[e]) << e;
}

TEST(StalenessSchedule, WarmupIsSynchronous) {
  const StalenessSchedule s(options(1, 0, 5));
  for (int e = 0; e < 5; ++e) EXPECT_EQ(s.lag(e), 0) << e;
  for (int e = 5; e < 9; ++e) EXPECT_EQ(s.lag(e), 1) << e;
}

// lag(e) = min(S, e - last synchronous epoch), for every combination.
TEST(StalenessSchedule, FollowsItsDefinition) {
  for (int bound = 0; bound <= 5; ++bound) {
    for (int every = 0; every <= 7; ++every) {
      for (int warmup = 0; warmup <= 4; ++warmup) {
        const StalenessSchedule s(options(bound, every, warmup));
        int last = 0;
        for (int e = 0; e < 40; ++e) {
          const bool sync = e == 0 || bound == 0 || e < warmup || (every > 0 && e % every == 0);
          if (sync) last = e;
          EXPECT_EQ(s.synchronous(e), sync);
          EXPECT_EQ(s.lag(e), std::min(bound, e - last));
        }
      }
    }
  }
}

}  // namespace
}  // namespace heliograph
