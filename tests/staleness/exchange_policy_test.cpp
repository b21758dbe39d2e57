#include "staleness/exchange_policy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/expect_error.hpp"
#include "support/sites.hpp"

namespace heliograph {
namespace {

ExchangeOptions options(int staleness, int sync_every, int warmup) {
  ExchangeOptions o;
  o.staleness = staleness;
  o.stale_sites = "all";
  o.sync_every = sync_every;
  o.warmup_epochs = warmup;
  return o;
}

/// Sites of two layers, each forward then backward, with those of partial sums behind each.
std::vector<Site> sites_of_two_layers() {
  std::vector<Site> sites;
  for (const int layer : {1, 2}) {
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      const int id = static_cast<int>(sites.size());
      Site site = test::site(id, layer, direction, 5);
      auto sums = std::make_shared<Site>(site);
      sums->id = id + 1;
      sums->name += ".sums";
      sums->partial_sums = true;
      site.sums = sums;
      sites.push_back(site);
      sites.push_back(*sums);
    }
  }
  return sites;
}

ExchangePolicy policy_of(const ExchangeOptions& options, int epochs = 100) {
  return {options, epochs, sites_of_two_layers()};
}

TEST(ExchangePolicy, ZeroIsAlwaysSynchronous) {
  const ExchangePolicy s = policy_of(options(0, 0, 0), 100);
  for (int e = 0; e < 10; ++e) EXPECT_EQ(s.lag({e}), 0);
}

TEST(ExchangePolicy, AgeGrowsToTheBoundAfterEpochZero) {
  const ExchangePolicy s = policy_of(options(3, 0, 0), 100);
  const int expected[] = {0, 1, 2, 3, 3, 3};
  for (int e = 0; e < 6; ++e) EXPECT_EQ(s.lag({e}), expected[e]) << e;
}

TEST(ExchangePolicy, SyncEveryStartsAgain) {
  const ExchangePolicy s = policy_of(options(2, 4, 0), 100);
  const int expected[] = {0, 1, 2, 2, 0, 1, 2, 2, 0, 1};
  for (int e = 0; e < 10; ++e) EXPECT_EQ(s.lag({e}), expected[e]) << e;
}

TEST(ExchangePolicy, WarmupIsSynchronous) {
  const ExchangePolicy s = policy_of(options(1, 0, 5), 100);
  for (int e = 0; e < 5; ++e) EXPECT_EQ(s.lag({e}), 0) << e;
  for (int e = 5; e < 9; ++e) EXPECT_EQ(s.lag({e}), 1) << e;
}

// Checks lag(e) = min(S, e - last synchronous epoch) for every combination.
TEST(ExchangePolicy, FollowsItsDefinition) {
  for (int bound = 0; bound <= 5; ++bound) {
    for (int every = 0; every <= 7; ++every) {
      for (int warmup = 0; warmup <= 4; ++warmup) {
        const ExchangePolicy s = policy_of(options(bound, every, warmup), 100);
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
    const ExchangePolicy policy = policy_of(o, 100);
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
  const auto slots = [](int staleness, int epochs) {
    return policy_of(options(staleness, 0, 0), epochs).slots(sites_of_two_layers()[0]);
  };
  EXPECT_EQ(slots(0, 100), 1);
  EXPECT_EQ(slots(3, 100), 4);
  EXPECT_EQ(slots(50, 8), 8);
  EXPECT_EQ(slots(5, 1), 2);
}

TEST(ExchangePolicy, OnlyTheChosenSitesAreLate) {
  const std::vector<Site> sites = sites_of_two_layers();
  for (const auto& [value, late] : std::vector<std::pair<std::string, std::set<std::string>>>{
           {"all",
            {"layers.1.forward", "layers.1.forward.sums", "layers.1.backward",
             "layers.1.backward.sums", "layers.2.forward", "layers.2.forward.sums",
             "layers.2.backward", "layers.2.backward.sums"}},
           {"lowest-backward", {"layers.1.backward", "layers.1.backward.sums"}},
           {"layers.2.forward,layers.1.backward",
            {"layers.2.forward", "layers.2.forward.sums", "layers.1.backward",
             "layers.1.backward.sums"}}}) {
    for (const int staleness : {0, 2}) {
      SCOPED_TRACE(value + ", S = " + std::to_string(staleness));
      ExchangeOptions o = options(staleness, 0, 0);
      o.stale_sites = value;
      const ExchangePolicy policy(o, 100, sites);
      EXPECT_EQ(policy.stale(), staleness > 0);
      EXPECT_EQ(policy.lag({9}), staleness);
      for (const Site& site : sites) {
        const int lag = late.contains(site.name) ? staleness : 0;
        EXPECT_EQ(policy.of(site, {9}).lag, lag) << site.name;
        EXPECT_EQ(policy.slots(site), 1 + lag) << site.name;
      }
    }
  }
}

TEST(ExchangePolicy, RefusesSitesThatTheModelLacks) {
  for (const char* value : {"layers.3.forward", "layers.1.forward,", "", "layers.1.forward.sums",
                            "layers.1.forward, layers.1.backward", "lowest-backward,all"}) {
    ExchangeOptions o;
    o.stale_sites = value;
    test::expect_error(ErrorCode::usage,
                       "stale-sites " + std::string(value) +
                           ": give all, lowest-backward or, with commas between them, sites of "
                           "this model: layers.1.forward, layers.1.backward, layers.2.forward or "
                           "layers.2.backward",
                       [&] { policy_of(o); });
  }
}

// A model without sites has none that can be late.
TEST(ExchangePolicy, IsNotStaleWithoutSites) {
  const ExchangePolicy policy(options(2, 0, 0), 100, {});
  EXPECT_FALSE(policy.stale());
  EXPECT_EQ(policy.lag({9}), 0);
  EXPECT_TRUE(policy.synchronous({9}));
}

TEST(ExchangePolicy, FormatsFollowDirectionAndSign) {
  ExchangeOptions o;
  o.bits_forward = Bits::one;
  o.bits_backward = Bits::four;
  const ExchangePolicy policy = policy_of(o, 10);
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
