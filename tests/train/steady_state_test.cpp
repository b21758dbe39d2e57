#include <gtest/gtest.h>

#include <vector>

#include "heliograph/train.hpp"
#include "support/allocations.hpp"
#include "support/graphs.hpp"

// Contract 7 of the design: after the first epoch, the training step allocates nothing.

namespace heliograph {
namespace {

class SteadyState : public ::testing::TestWithParam<ModelKind> {};

TEST_P(SteadyState, NothingIsAllocatedAfterTheFirstEpochs) {
  if (!test::allocations_are_counted()) GTEST_SKIP() << "sanitizers own the allocator";
  for (const bool sparse : {false, true}) {
    for (const int staleness : {0, 2}) {
      const Dataset data = testing::make_small_dataset(1500, 200, 7, 3, false, sparse);
      TrainOptions o;
      o.model.kind = GetParam();
      o.model.layers = 3;
      o.model.hidden = 130;
      o.model.residual = true;
      o.exchange.bits_forward = 1;
      o.exchange.bits_backward = 4;
      o.exchange.staleness = staleness;
      o.partition.parts = 3;
      o.partition.partitioner = Partitioner::random;
      o.transport.threads_per_rank = 2;
      o.epochs = 12;
      o.eval_every = 1000;
      std::vector<std::int64_t> counts;
      counts.reserve(32);
      TrainCallbacks callbacks;
      callbacks.on_epoch = [&](const EpochReport&) { counts.push_back(test::allocations()); };
      train(data, o, callbacks);
      // Slots of a ring are first used in epochs 0 to S; reports of epoch 11 follow an evaluation.
      EXPECT_EQ(counts[10], counts[4]) << (sparse ? "sparse" : "dense") << ", S = " << staleness;
      EXPECT_GT(counts[0], 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SteadyState, ::testing::Values(ModelKind::gcn, ModelKind::sage));

}  // namespace
}  // namespace heliograph
