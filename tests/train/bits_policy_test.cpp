#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heliograph/checkpoint.hpp"
#include "heliograph/io.hpp"
#include "heliograph/train.hpp"
#include "staleness/degree_bits.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "train/run/summary.hpp"

// ExchangeOptions::bits_policy: Sylvie's adaptive bits.

namespace heliograph {
namespace {

using ::testing::ElementsAre;

TrainOptions with_policy(BitsPolicy policy, int epochs) {
  TrainOptions o = test::small_options(3, epochs);
  o.model.kind = ModelKind::sage;
  o.model.layers = 3;
  o.model.hidden = 40;
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
  o.exchange.bits_policy = policy;
  return o;
}

Dataset three_parts() { return test::make_small_dataset(300, 16, 5, 3); }

std::vector<int> trend_changes(const TrainResult& result) {
  std::vector<int> epochs;
  for (const EpochReport& report : result.epochs) {
    if (report.trend) epochs.push_back(report.epoch);
  }
  return epochs;
}

TEST(DegreeBits, GrowWithTheDegreeInGroupsOfEqualSize) {
  Shard shard;
  shard.in_degree = {5, 1, 9, 9, 2, 7, 3, 8, 100, 0};
  for (std::int64_t row = 0; row < 10; ++row) shard.global_ids.push_back(50 - row);
  HaloPlan plan;
  plan.inner_rows = 10;
  plan.peers.resize(2);
  plan.peers[0].sent = {0, 1, 2, 3, 4};
  plan.peers[1].sent = {2, 3, 5, 6, 7};
  // Ascending: rows 1, 4, 6, 0, 5, 7, 3 and 2, of which 3 has the lower number of a node.
  EXPECT_THAT(bits_by_degree(plan, shard, 1), ElementsAre(2, 1, 8, 8, 1, 4, 2, 4, 1, 1));
  EXPECT_THAT(bits_by_degree(plan, shard, 4), ElementsAre(4, 4, 8, 8, 4, 8, 4, 8, 4, 4));
  EXPECT_THAT(bits_by_degree(plan, shard, 8), ElementsAre(8, 8, 8, 8, 8, 8, 8, 8, 8, 8));
}

TEST(BitsPolicy, ByDegreeTakesTheBytesOfItsGroups) {
  const Dataset data = three_parts();
  TrainOptions o = with_policy(BitsPolicy::degree, 2);
  const TrainResult result = train(data, o);
  double mean = 0;
  for (const Bits bits : {Bits::one, Bits::two, Bits::four, Bits::eight}) {
    TrainOptions uniform = with_policy(BitsPolicy::uniform, 2);
    uniform.exchange.bits_forward = uniform.exchange.bits_backward = bits;
    mean += static_cast<double>(train(data, uniform).bytes_per_epoch.halo_forward) / 4;
  }
  // A rank sends more copies of a row of a high degree.
  EXPECT_GT(static_cast<double>(result.bytes_per_epoch.halo_forward), 0.97 * mean);
  EXPECT_LT(static_cast<double>(result.bytes_per_epoch.halo_forward), 1.15 * mean);
  for (const ExchangeSite& site : result.sites) EXPECT_GT(site.bits, 3.5) << site.name;
  // Rows of 8 bits each are those of a run at 8 bits.
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::eight;
  const TrainResult eight = train(data, o);
  o.exchange.bits_policy = BitsPolicy::uniform;
  const TrainResult plain = train(data, o);
  test::expect_same_numbers(eight, plain);
  EXPECT_EQ(eight.bytes_per_epoch.total(), plain.bytes_per_epoch.total());
}

TEST(BitsPolicy, DependsOnNeitherThreadsNorBlocks) {
  const Dataset data = test::make_small_dataset(1100, 12, 4, 3);
  TrainOptions o = with_policy(BitsPolicy::degree_trend, 20);
  o.exchange.staleness = 1;
  o.transport.row_blocks = 1;
  const TrainResult one = train(data, o);
  EXPECT_FALSE(trend_changes(one).empty());
  o.transport.row_blocks = 3;
  o.transport.threads_per_rank = 3;
  test::expect_same_run(one, train(data, o));
}

// Whether a run stops before, at or after a change of its exchanges, it goes on with the same bits.
TEST(BitsPolicy, ByTrendIsResumedAndVerified) {
  const Dataset data = three_parts();
  for (const BitsPolicy policy : {BitsPolicy::trend, BitsPolicy::degree_trend}) {
    TrainOptions o = with_policy(policy, 34);
    o.model.dropout = 0;
    o.optimizer.lr = 0.003F;
    o.optimizer.lr_warmup = 20;  // The loss falls faster, and then more slowly.
    o.exchange.staleness = 1;
    o.exchange.stale_sites = "all";
    o.exchange.bits_forward = Bits::four;
    const TrainResult whole = train(data, o);
    const std::vector<int> changes = trend_changes(whole);
    ASSERT_GE(changes.size(), 2U);
    bool pipelined = false, waited = false;
    for (const int epoch : changes) {
      const auto e = static_cast<std::size_t>(epoch);
      EXPECT_EQ(whole.epochs[e].lag, 0);
      (whole.epochs[e].trend->staleness > 0 ? pipelined : waited) = true;
      EXPECT_EQ(epoch_to_json(whole.epochs[e])["trend"]["staleness"],
                whole.epochs[e].trend->staleness);
    }
    EXPECT_TRUE(pipelined);
    EXPECT_TRUE(waited);
    EXPECT_EQ(summarize(whole, o)["trend"].size(), changes.size());
    for (const int stop : {changes[0] - 1, changes[0], changes[0] + 1, changes.back() + 2}) {
      SCOPED_TRACE(stop);
      const test::TemporaryDirectory folder;
      TrainOptions part = o;
      part.epochs = stop;
      part.checkpoint.folder = folder / "c";
      part.checkpoint.every = 100;
      train(data, part);
      part.epochs = o.epochs;
      part.checkpoint.resume = newest_checkpoint(folder / "c");
      part.verify_every = 3;
      const TrainResult resumed = train(data, part);
      test::expect_same_run(whole, resumed);
      EXPECT_EQ(trend_changes(resumed), changes);
    }
  }
}

TEST(BitsPolicy, KeepsToTheMemoryThatWasCheckedForIt) {
  const Dataset data = three_parts();
  TrainOptions o = with_policy(BitsPolicy::trend, 20);
  const std::int64_t uniform = [&] {
    TrainOptions at = with_policy(BitsPolicy::uniform, 2);
    at.exchange.bits_forward = at.exchange.bits_backward = Bits::eight;
    return train(data, at).memory.halo;
  }();
  const TrainResult result = train(data, o);
  ASSERT_FALSE(trend_changes(result).empty());
  EXPECT_EQ(result.memory.halo, uniform);
}

}  // namespace
}  // namespace heliograph
