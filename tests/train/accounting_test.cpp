#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "comm/threads/transport.hpp"
#include "heliograph/train.hpp"
#include "support/faulty_communicator.hpp"
#include "support/graphs.hpp"
#include "train/plan/dataset_plan.hpp"
#include "train/trainer.hpp"

// Bytes and memory are counted, not estimated.

namespace heliograph {
namespace {

TrainOptions options_of(int ranks) {
  TrainOptions o;
  o.model.layers = 3;
  o.model.hidden = 40;
  o.model.transform_first = false;
  o.epochs = 3;
  o.eval_every = 100;
  o.partition.parts = ranks;
  o.partition.partitioner = Partitioner::random;
  return o;
}

TEST(Accounting, HaloBytesAreRowsTimesTheirEncodedSize) {
  const Dataset data = test::make_small_dataset(300, 8, 3, 3);
  TrainOptions o = options_of(3);
  o.exchange.bits_forward = Bits::two;
  o.exchange.bits_backward = Bits::one;
  for (const int staleness : {0, 2}) {
    o.exchange.staleness = staleness;
    o.exchange.stale_sites = "all";
    const TrainResult r = train(data, o);
    const std::int64_t rows = r.partition.communication_volume;
    for (const EpochReport& e : r.epochs) {
      // Inputs of layers 1 and 2 follow a ReLU. A row is 2 bytes of step and 40 codes of 2 bits.
      EXPECT_EQ(e.bytes.halo_forward, 2 * rows * (2 + 10));
      // A row of gradients is a step, a minimum and 40 codes of 1 bit.
      EXPECT_EQ(e.bytes.halo_backward, 2 * rows * (4 + 5));
      EXPECT_EQ(e.fp32_bytes, 4 * rows * 40 * 4);
    }
  }
}

TEST(Accounting, WeightBytesAreThoseOfAReduceScatterAndAGather) {
  const Dataset data = test::make_small_dataset(300, 8, 3, 3);
  for (const bool reproducible : {false, true}) {
    TrainOptions o = options_of(4);
    o.reproducible = reproducible;
    const TrainResult r = train(data, o);
    const std::int64_t value = (reproducible ? 8 : 4) + 4;
    // All ranks together send each gradient and each weight K - 1 times. Parameters are padded to
    // 16 values.
    const std::int64_t least = 3 * r.parameters * value;
    EXPECT_GE(r.bytes_per_epoch.allreduce, least);
    EXPECT_LE(r.bytes_per_epoch.allreduce, least + 3 * 16 * 16 * value);
  }
}

// Weights are summed once a layer, each time by one message to every other rank and one back with
// the new weights. The loss and the squares of the gradients travel with the epoch's figures.
TEST(Accounting, MessagesOfAnEpochAreTwoToEachRankForEverySum) {
  const Dataset data = test::make_small_dataset(300, 8, 3, 3);
  for (const int blocks : {1, 3}) {
    TrainOptions o = options_of(4);
    o.transport.row_blocks = blocks;
    const DatasetPlan plan(data, o, {});
    run_ranks(4, {}, [&](Communicator& inner) {
      test::FaultyCommunicator comm(inner, {});
      Trainer trainer(plan,
                      plan.load(comm.rank(), GraphScope::training, MemoryUse::features, nullptr),
                      comm, nullptr);
      for (int epoch = 0; epoch < o.epochs; ++epoch) {
        const std::int64_t weights = comm.messages_sent(Channel::weights);
        const std::int64_t figures = comm.messages_sent(Channel::evaluation);
        const std::int64_t halo = comm.messages_sent(Channel::halo);
        trainer.run_epoch(epoch, [] { return RunRequests(); });
        EXPECT_EQ(comm.messages_sent(Channel::weights) - weights, o.model.layers * 2 * 3);
        EXPECT_EQ(comm.messages_sent(Channel::evaluation) - figures, 2 * 3);
        // Two layers exchange rows with every other rank, in both directions.
        EXPECT_EQ(comm.messages_sent(Channel::halo) - halo, 2 * 2 * 3 * blocks);
      }
      trainer.finish();
    });
  }
}

TEST(Accounting, OptimizerStateIsDividedByTheRanks) {
  const Dataset data = test::make_small_dataset(300, 24, 3, 3);
  const TrainResult one = train(data, options_of(1));
  for (const int ranks : {2, 4}) {
    const TrainResult r = train(data, options_of(ranks));
    // Each rank has whole weights, and all ranks together have one optimizer state: two values for
    // each parameter. Parameters are padded to 16 values, and shares are rounded up.
    const std::int64_t state = (ranks * one.memory.weights - r.memory.weights) / (ranks - 1);
    EXPECT_GE(state, 2 * 4 * r.parameters - 1024) << ranks;
    EXPECT_LE(state, 2 * 4 * r.parameters + 1024) << ranks;
  }
}

TEST(Accounting, GraphMemoryHoldsTheStructure) {
  const Dataset data = test::make_small_dataset(3000, 8, 3, 3);
  TrainOptions o = options_of(2);
  const TrainResult r = train(data, o);
  const std::int64_t edges = data.graph.entries();
  // Each edge is a column in one block. Each row has an offset in both blocks, an id and a degree.
  EXPECT_GE(r.memory.graph, 4 * edges + 4 * 8 * 3000);
  EXPECT_LE(r.memory.graph, 8 * edges + 20 * 8 * 3000);
}

TEST(Accounting, HaloMemoryIsThatOfTrainingAndGrowsWithStaleness) {
  const Dataset data = test::make_small_dataset(3000, 8, 3, 3);
  TrainOptions o = options_of(2);
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
  for (const auto& [staleness, late] : {std::pair{0, "all"}, {1, "all"}, {1, "lowest-backward"}}) {
    o.exchange.staleness = staleness;
    o.exchange.stale_sites = late;
    const TrainResult r = train(data, o);
    // One send and one receive buffer. Evaluation's are counted apart, and all synchronous
    // exchanges share those of the widest one.
    std::map<std::int64_t, std::int64_t> passes;  // Bytes of an epoch over all links, by site.
    for (const LinkTraffic& link : r.halo_traffic) {
      passes[link.site] += link.bytes / o.epochs;
    }
    std::int64_t widest = 0, rings = 0;
    for (const auto& [site, bytes] : passes) {
      if (r.sites[static_cast<std::size_t>(site)].late) {
        rings += 2 * bytes;
      } else {
        widest = std::max(widest, bytes);
      }
    }
    EXPECT_EQ(rings == 0, staleness == 0);
    EXPECT_EQ(widest == 0, staleness == 1 && late == std::string("all"));
    EXPECT_EQ(r.memory.halo, 2 * (widest + rings));
    EXPECT_GT(r.memory.evaluation, 0);
  }
}

TEST(Accounting, LargerSumsTakeMoreWorkspace) {
  const Dataset data = test::make_small_dataset(3000, 8, 3, 3);
  const TrainResult r = train(data, options_of(1));
  // Bias, gain and shift sums of every tile of 256 rows.
  EXPECT_GE(r.memory.workspace, (3000 / 256 + 1) * 3 * 40 * 4);
}

}  // namespace
}  // namespace heliograph
