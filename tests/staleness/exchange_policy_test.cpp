#include "staleness/exchange_policy.hpp"

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

TEST(ExchangePolicy, ZeroIsAlwaysSynchronous) {
  const ExchangePolicy s(options(0, 0, 0), 100);
  for (int e = 0; e < 10; ++e) EXPECT_EQ(s.lag({e}), 0);
}

TEST(ExchangePolicy, AgeGrowsToTheBoundAfterEpochZero) {
  const ExchangePolicy s(options(3, 0, 0), 100);
  const int expected[] = {0, 1, 2, 3, 3, 3};
  for (int e = 0; e < 6; ++e) EXPECT_EQ(s.lag({e}), expected[e]) << e;
}

TEST(ExchangePolicy, SyncEveryStartsAgain) {
  const ExchangePolicy s(options(2, 4, 0), 100);
  const int expected[] = {0, 1, 2, 2, 0, 1, 2, 2, 0, 1};
  for (int e = 0; e < 10; ++e) EXPECT_EQ(s.lag({e}), expected[e]) << e;
}

TEST(ExchangePolicy, WarmupIsSynchronous) {
  const ExchangePolicy s(options(1, 0, 5), 100);
  for (int e = 0; e < 5; ++e) EXPECT_EQ(s.lag({e}), 0) << e;
  for (int e = 5; e < 9; ++e) EXPECT_EQ(s.lag({e}), 1) << e;
}

// Checks lag(e) = min(S, e - last synchronous epoch) for every combination.
TEST(ExchangePolicy, FollowsItsDefinition) {
  for (int bound = 0; bound <= 5; ++bound) {
    for (int every = 0; every <= 7; ++every) {
      for (int warmup = 0; warmup <= 4; ++warmup) {
        const ExchangePolicy s(options(bound, every, warmup), 100);
        int last = 0;
        for (int e = 0; e < 40; ++e) {
          const bool sync = e == 0 || bound == 0 || e < warmup || (every > 0 && e % every == 0);
          if (sync) last = e;
          EXPECT_EQ(s.synchronous({e}), sync);
          EXPECT_EQ(s.lag({e}), std::min(bound, e - last));
        }
      }
    }
  }
}

TEST(ExchangePolicy, SumsOfGradientsHaveTwoBitsAtLeast) {
  for (const Bits bits : {Bits::one, Bits::two, Bits::eight}) {
    ExchangeOptions o;
    o.bits_forward = o.bits_backward = bits;
    const ExchangePolicy policy(o, 100);
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      for (const bool sums : {false, true}) {
        Site site;
        site.direction = direction;
        site.partial_sums = sums;
        const int least = sums && direction == Direction::backward ? 2 : 1;
        EXPECT_EQ(policy.of(site, {0}).format.bits, std::max(bit_count(bits), least));
      }
    }
  }
}

// No halo is older than the run, but a run of one epoch may be resumed.
TEST(ExchangePolicy, HoldsNoMoreEpochsThanTheRunHas) {
  EXPECT_EQ(ExchangePolicy(options(0, 0, 0), 100).slots(), 1);
  EXPECT_EQ(ExchangePolicy(options(3, 0, 0), 100).slots(), 4);
  EXPECT_EQ(ExchangePolicy(options(50, 0, 0), 8).slots(), 8);
  EXPECT_EQ(ExchangePolicy(options(5, 0, 0), 1).slots(), 2);
}

TEST(ExchangePolicy, FormatsFollowDirectionAndSign) {
  ExchangeOptions o;
  o.bits_forward = Bits::one;
  o.bits_backward = Bits::four;
  const ExchangePolicy policy(o, 10);
  Site site;
  site.cols = 24;
  EXPECT_EQ(policy.of(site, {}).format, (RowFormat{1, true}));
  site.nonnegative = true;
  EXPECT_EQ(policy.of(site, {}).format, (RowFormat{1, false}));
  EXPECT_EQ(policy.most_row_bytes(site), 2 + 3);
  site.exact_cols = 2;
  EXPECT_EQ(policy.of(site, {}).format, (RowFormat{1, false, 2}));
  EXPECT_EQ(policy.most_row_bytes(site), 2 + 3 + 8);
  site.groups = 3;
  EXPECT_EQ(policy.of(site, {}).format, (RowFormat{1, false, 2, 3}));
  EXPECT_EQ(policy.most_row_bytes(site), 3 * (2 + 1) + 8);
  site.groups = 1;
  site.direction = Direction::backward;
  site.exact_cols = 0;
  EXPECT_EQ(policy.of(site, {}).format, (RowFormat{4, false}));
}

}  // namespace
}  // namespace heliograph
