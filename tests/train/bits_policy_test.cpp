#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/shard.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/io.hpp"
#include "heliograph/partition.hpp"
#include "heliograph/train.hpp"
#include "staleness/degree_bits.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "train/run/summary.hpp"

// ExchangeOptions::bits_policy: Sylvie's adaptive bits.

namespace heliograph {
namespace {

using ::testing::ElementsAre;

TrainOptions with_policy(BitsPolicy policy, int epochs) {
  TrainOptions o = test::one_bit_options(ModelKind::sage, epochs);
  o.exchange.bits_policy = policy;
  return o;
}

Dataset three_parts() { return test::make_small_dataset(300, 16, 5, 3); }

std::vector<int> trend_changes(const TrainResult& result) {
  return test::epochs_with(result, &EpochReport::trend);
}

TEST(DegreeBits, GrowWithTheDegree) {
  Shard shard;
  shard.in_degree = {5, 1, 9, 9, 2, 7, 3, 8, 100, 0};
  HaloPlan plan;
  plan.inner_rows = 10;
  plan.peers.resize(2);
  plan.peers[0].sent = {0, 1, 2, 3, 4};
  plan.peers[1].sent = {2, 3, 5, 6, 7};
  // Ascending: rows 1, 4, 6, 0, 5, 7 and, of one degree, 2 and 3.
  EXPECT_THAT(bits_by_degree(plan, shard, 1), ElementsAre(2, 1, 8, 8, 1, 4, 2, 4, 1, 1));
  EXPECT_THAT(bits_by_degree(plan, shard, 4), ElementsAre(4, 4, 8, 8, 4, 8, 4, 8, 4, 4));
  EXPECT_THAT(bits_by_degree(plan, shard, 8), ElementsAre(8, 8, 8, 8, 8, 8, 8, 8, 8, 8));
  // Seven eighths of the rows have at most degree 5, so none has 1 or 2 bits.
  shard.in_degree = {5, 5, 5, 5, 5, 5, 5, 9, 0, 0};
  EXPECT_THAT(bits_by_degree(plan, shard, 1), ElementsAre(8, 8, 8, 8, 8, 8, 8, 8, 1, 1));
}

TEST(BitsPolicy, ByDegreeTakesTheBytesOfItsGroups) {
  const Dataset data = three_parts();
  TrainOptions o = with_policy(BitsPolicy::degree, 2);
  const TrainResult result = train(data, o);
  // Both epochs of the exchange of gradients of 40 columns; a row also has a minimum and a step.
  std::int64_t expected = 0, told = 0, counted = 0;
  const Partition partition = make_partition(data.graph, o.partition);
  const NodeIndex index(data.graph, partition);
  for (int rank = 0; rank < 3; ++rank) {
    const Shard shard = build_shard(index, rank, nullptr);
    const HaloPlan& plan = shard.plan(Direction::backward, false);
    const std::vector<std::uint8_t> bits = bits_by_degree(plan, shard, 1);
    for (const HaloPlan::Peer& peer : plan.peers) {
      for (const std::int32_t row : peer.sent) {
        expected += 2 * (4 + 40 * bits[static_cast<std::size_t>(row)] / 8);
      }
      told += (std::ssize(peer.sent) + 3) / 4 + 8 * std::ssize(peer.sent);
    }
  }
  for (const LinkTraffic& link : result.halo_traffic) {
    const ExchangeSite& site = result.sites[static_cast<std::size_t>(link.site)];
    if (site.name == "layers.1.backward") counted += link.bytes;
  }
  EXPECT_EQ(counted, expected);
  // Each of four exchanges tells the numbers of its rows' nodes, 8 bytes each, and their bits.
  o.exchange.bits_policy = BitsPolicy::uniform;
  EXPECT_EQ(result.evaluation_bytes - train(data, o).evaluation_bytes, 4 * told);
  // Rows of 8 bits each are those of a run at 8 bits.
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::eight;
  const TrainResult plain = train(data, o);
  o.exchange.bits_policy = BitsPolicy::degree;
  const TrainResult eight = train(data, o);
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
    for (const int stop : {changes[0] - 1, changes[0], changes[0] + 1, changes[1] + 1}) {
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
      part.exchange.bits_policy = BitsPolicy::uniform;
      test::expect_error(ErrorCode::mismatch, "init-from begins a new run from its weights",
                         [&] { train(data, part); });
    }
  }
}

}  // namespace
}  // namespace heliograph
