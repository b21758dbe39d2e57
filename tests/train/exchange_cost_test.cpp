#include "train/plan/exchange_cost.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "train/options/given.hpp"
#include "train/options/values.hpp"
#include "train/plan/dataset_plan.hpp"
#include "train/run/summary.hpp"

namespace heliograph {
namespace {

using ::testing::HasSubstr;

/// Expects the cost at every number of bits to be what a run counts.
void expect_what_train_counts(const Dataset& data, TrainOptions o) {
  const Partition partition = make_partition(data.graph, o.partition);
  const Split split = make_split(data, o.split);
  const auto exchanges = at_all_bits(o);
  const auto costs = exchange_costs(data, partition, o, o.inductive ? &split : nullptr, exchanges);
  ASSERT_EQ(costs.size(), o.model.kind == ModelKind::gatv2 ? 3U : 6U);
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const ExchangeCost& cost = costs[i];
    o.exchange = exchanges[i];
    const TrainResult r = train(data, o);
    EXPECT_EQ(cost.row_bytes, r.bytes_per_epoch.halo_forward + r.bytes_per_epoch.halo_backward)
        << bit_count(o.exchange.bits_forward);
    EXPECT_EQ(cost.gradient_bytes, r.bytes_per_epoch.allreduce);
    EXPECT_EQ(cost.link_bytes, busiest_link_bytes(r, o.partition.parts));
    EXPECT_LE(cost.memory.total(), r.memory.total());
    EXPECT_GE(2 * cost.memory.total(), r.memory.total());
  }
}

TEST(ExchangeCost, OfKeptColumnsIsTheMean) {
  const Dataset data = test::make_small_dataset(300, 24, 3, 3);
  TrainOptions o = test::small_options(3, 5);
  o.model.layers = 3;
  o.model.hidden = 41;
  o.exchange.kept_columns = true;
  const Partition partition = make_partition(data.graph, o.partition);
  for (const ExchangedRows rows : {ExchangedRows::boundary, ExchangedRows::cover}) {
    for (const float dropout : {0.001F, 0.3F, 0.9F}) {
      o.model.dropout = dropout;
      o.exchange.rows = rows;
      const auto exchanges = at_all_bits(o);
      const auto costs = exchange_costs(data, partition, o, nullptr, exchanges);
      for (std::size_t i = 0; i < costs.size(); ++i) {
        SCOPED_TRACE(::testing::Message()
                     << dropout << ", " << bit_count(exchanges[i].bits_forward));
        TrainOptions run = o;
        run.exchange = exchanges[i];
        const TrainResult r = train(data, run);
        const TrafficBytes& bytes = r.bytes_per_epoch;
        const auto counted = static_cast<double>(bytes.halo_forward + bytes.halo_backward);
        EXPECT_NEAR(static_cast<double>(costs[i].row_bytes) / counted, 1, 0.005);
        if (rows == ExchangedRows::cover) continue;
        EXPECT_LE(costs[i].memory[MemoryUse::halo], r.memory.halo);
        EXPECT_GE(costs[i].memory[MemoryUse::halo], r.memory.halo * 17 / 20);
      }
    }
  }
}

TEST(ExchangeCost, IsWhatReproducibleAttentionCounts) {
  const Dataset data = test::make_small_dataset(300, 24, 3, 3);
  TrainOptions o = test::small_options(3, 2);
  o.model.kind = ModelKind::gat;
  o.reproducible = true;
  expect_what_train_counts(data, o);
  EXPECT_TRUE(train(data, o).model->options.precompute)
      << "options are kept as they were asked for";
}

TEST(ExchangeCost, RefusesWhatCannotBeTrained) {
  const Dataset data = test::make_small_dataset(300, 24, 3, 3, false, true);
  const auto refused = [&](const TrainOptions& o, const char* why) {
    const Partition partition = make_partition(data.graph, o.partition);
    const auto exchanges = at_all_bits(o);
    test::expect_error(ErrorCode::usage, why,
                       [&] { exchange_costs(data, partition, o, nullptr, exchanges); });
    test::expect_error(ErrorCode::usage, why, [&] { train(data, o); });
  };
  TrainOptions o = test::small_options(3, 2);
  o.normalize = Normalization::standard;
  refused(o, "standard normalisation would make sparse features dense");
  o = test::small_options(3, 2);
  o.model.precompute = o.model.transform_first = false;
  refused(o, "no-transform-first: sparse features are aggregated either before");
}

TEST(ExchangeCost, AModelThatExchangesNoRowsIsKnown) {
  const Dataset data = test::make_small_dataset(60, 24, 3, 3);
  for (const ModelKind kind : test::all_models()) {
    for (const int layers : {1, 2}) {
      if (kind == ModelKind::jknet && layers == 1) continue;  // It has nothing to join.
      for (const bool precompute : {false, true}) {
        for (const bool reproducible : {false, true}) {
          TrainOptions o = test::small_options(2, 1);
          o.model.kind = kind;
          o.model.layers = layers;
          o.model.precompute = precompute;
          o.reproducible = reproducible;
          EXPECT_EQ(train(data, o).sites.empty(), !exchanges_rows(o))
              << choice_name(kind) << layers << precompute << reproducible;
        }
      }
    }
  }
}

TEST(ExchangeCost, IsWhatTrainCounts) {
  const Dataset dense = test::make_small_dataset(300, 24, 3, 3);
  for (const ModelKind kind : test::all_models()) {
    TrainOptions o = test::small_options(3, 2);
    o.model.kind = kind;
    o.model.layers = 3;
    if (kind != ModelKind::gcn) o.model.norm = NormLayer::batch;
    expect_what_train_counts(dense, o);
    o.model.precompute = false;
    o.model.transform_first = false;
    expect_what_train_counts(dense, o);
  }
}

TEST(ExchangeCost, IsWhatTrainCountsWithStalenessAndSumsInFp64) {
  TrainOptions o = test::small_options(4, 3);
  o.exchange.staleness = 2;
  o.reproducible = true;
  expect_what_train_counts(test::make_small_dataset(300, 24, 3, 3), o);
}

TEST(ExchangeCost, IsWhatTrainCountsWithClipping) {
  TrainOptions o = test::small_options(3, 2);
  o.optimizer.clip_norm = 0.5F;
  expect_what_train_counts(test::make_small_dataset(300, 24, 3, 3), o);
}

TEST(ExchangeCost, IsWhatTrainCountsWithGradientsOfFewBits) {
  for (const Bits bits : {Bits::bf16, Bits::eight, Bits::four}) {
    TrainOptions o = test::small_options(3, 2);
    o.exchange.gradient_bits = bits;
    o.model.norm = NormLayer::batch;
    expect_what_train_counts(test::make_small_dataset(300, 24, 3, 3), o);
  }
}

TEST(ExchangeCost, IsWhatTrainCountsOnDirectedAndSparseData) {
  TrainOptions o = test::small_options(3, 2);
  o.model.layers = 3;
  expect_what_train_counts(test::make_small_dataset(300, 24, 3, 3, false, true, true), o);
}

TEST(ExchangeCost, IsWhatTrainCountsInInductiveTraining) {
  TrainOptions o = test::small_options(3, 2);
  o.inductive = true;
  expect_what_train_counts(test::make_small_dataset(300, 24, 3, 3), o);
}

TEST(ExchangeCost, IsWhatTrainCountsWithCovers) {
  TrainOptions o = test::small_options(3, 2);
  o.model.layers = 3;
  o.exchange.rows = ExchangedRows::cover;
  for (const bool directed : {false, true}) {
    const Dataset data = test::make_small_dataset(300, 24, 3, 3, false, false, directed);
    for (const bool inductive : {false, true}) {
      o.inductive = inductive;
      o.exchange.staleness = inductive ? 2 : 0;
      expect_what_train_counts(data, o);
    }
  }
}

TEST(ExchangeCost, IsWarnedOfWhereEmulatedLinksTakeLong) {
  const Dataset data = test::make_small_dataset(300, 24, 3, 3);
  TrainOptions o = test::small_options(3, 1);
  std::string lines;
  const LogCallback log = [&](LogLevel, std::string_view text) { lines.append(text); };
  o.transport.link_gbps = 1e-9;
  const DatasetPlan slow(data, o, log);
  EXPECT_THAT(lines, HasSubstr("at link-gbps 1e-09 the busiest link takes "));
  lines.clear();
  o.transport.link_gbps = 1;
  const DatasetPlan fast(data, o, log);
  EXPECT_EQ(lines, "");
}

TEST(ExchangeCost, OfOneRankIsNothing) {
  const Dataset data = test::make_small_dataset(100, 8, 3, 3);
  const TrainOptions o = test::small_options(1, 1);
  for (const ExchangeCost& cost :
       exchange_costs(data, make_partition(data.graph, o.partition), o, nullptr, at_all_bits(o))) {
    EXPECT_EQ(cost.row_bytes + cost.gradient_bytes + cost.link_bytes, 0);
  }
}

}  // namespace
}  // namespace heliograph
