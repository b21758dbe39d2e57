#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "heliograph/train.hpp"
#include "layers/compose.hpp"
#include "support/allocations.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

// Contract 7 (docs/architecture.md): after the first epochs, the training step allocates nothing.

namespace heliograph {
namespace {

class SteadyState : public ::testing::TestWithParam<ModelKind> {};

TEST_P(SteadyState, NothingIsAllocatedAfterTheFirstEpochs) {
  if (!test::allocations_are_counted()) GTEST_SKIP() << "sanitizers own the allocator";
  for (const bool sparse : {false, true}) {
    for (const int staleness : {0, 2}) {
      const Dataset data = test::make_small_dataset(1500, 200, 7, 3, false, sparse);
      TrainOptions o;
      o.model.kind = GetParam();
      o.model.layers = 3;
      o.model.hidden = 130;
      o.model.residual = Residual::identity;
      o.model.heads = attends(o.model) ? 2 : o.model.heads;
      // BatchNorm beside LayerNorm.
      if (sparse && o.model.kind != ModelKind::sage) o.model.norm = NormLayer::batch;
      o.model.aggregate_storage =
          staleness == 0 || attends(o.model) ? RowStorage::fp32 : RowStorage::bf16;
      o.exchange.bits_forward = test::bits_for(o.model.kind, Bits::one);
      o.exchange.bits_backward = test::bits_for(o.model.kind, Bits::four);
      o.exchange.staleness = staleness;
      o.exchange.stale_sites = "all";
      if (sparse && !attends(o.model)) o.exchange.rows = ExchangedRows::cover;
      o.exchange.kept_columns = true;
      if (!sparse) {
        o.transport.row_blocks = 4;
        // Sends are first held back in epoch 6.
        o.exchange.warmup_epochs = staleness > 0 ? 6 : 0;
      }
      o.partition.parts = 3;
      o.partition.partitioner = Partitioner::random;
      o.transport.threads_per_rank = 2;
      o.epochs = 12;
      o.eval_every = 1000;
      std::vector<std::int64_t> counts;
      counts.reserve(32);
      TrainCallbacks callbacks;
      callbacks.on_epoch = [&](const EpochReport&) {
        counts.push_back(test::allocations());
        return EpochAction::proceed;
      };
      train(data, o, callbacks);
      // Slots of a ring are first used in epochs 0 to S. The report of epoch 11 follows an
      // evaluation.
      EXPECT_EQ(counts[10], counts[4]) << (sparse ? "sparse" : "dense") << ", S = " << staleness;
      EXPECT_GT(counts[0], 0);
    }
  }
}

struct SteadySetting {
  int bits;
  int staleness;
  int ranks;
};

class SteadyEpochs : public ::testing::TestWithParam<std::tuple<ModelKind, SteadySetting>> {};

TEST_P(SteadyEpochs, NoThreadAllocatesFromEpochSPlusTwoOn) {
  if (!test::allocations_are_counted()) GTEST_SKIP() << "sanitizers own the allocator";
  const auto& [kind, setting] = GetParam();
  const Dataset data = test::make_small_dataset(800, 30, 5, 3);
  TrainOptions o;
  o.model.kind = kind;
  o.model.hidden = 40;
  o.model.dropout = 0.4F;
  o.exchange.bits_forward = o.exchange.bits_backward = Bits{setting.bits};
  o.exchange.staleness = setting.staleness;
  o.exchange.stale_sites = "all";
  o.partition.parts = setting.ranks;
  o.partition.partitioner = Partitioner::random;
  o.transport.threads_per_rank = 2;
  o.epochs = 10;
  o.eval_every = 1000;
  std::vector<std::int64_t> counts;
  counts.reserve(32);
  TrainCallbacks callbacks;
  callbacks.on_epoch = [&](const EpochReport&) {
    counts.push_back(test::allocations());
    return EpochAction::proceed;
  };
  train(data, o, callbacks);
  // The report of epoch S + 1 comes before the first steady epoch; that of the last epoch after
  // an evaluation.
  EXPECT_EQ(counts[8], counts[static_cast<std::size_t>(setting.staleness) + 1]);
}

std::string name_of(const ::testing::TestParamInfo<SteadyEpochs::ParamType>& tested) {
  const SteadySetting& setting = std::get<1>(tested.param);
  return test::name_of(std::get<0>(tested.param)) + "_" + std::to_string(setting.bits) + "bits_s" +
         std::to_string(setting.staleness) + "_k" + std::to_string(setting.ranks);
}

INSTANTIATE_TEST_SUITE_P(
    Settings, SteadyEpochs,
    ::testing::Combine(::testing::Values(ModelKind::gcn, ModelKind::sage),
                       ::testing::Values(SteadySetting{32, 0, 1}, SteadySetting{32, 0, 4},
                                         SteadySetting{32, 1, 4}, SteadySetting{8, 0, 4},
                                         SteadySetting{8, 1, 4}, SteadySetting{1, 0, 4},
                                         SteadySetting{1, 1, 4}, SteadySetting{1, 1, 1})),
    name_of);

INSTANTIATE_TEST_SUITE_P(Models, SteadyState, ::testing::ValuesIn(test::all_models()),
                         [](const auto& tested) { return test::name_of(tested.param); });

}  // namespace
}  // namespace heliograph
