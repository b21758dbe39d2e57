#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include "heliograph/partition.hpp"
#include "heliograph/shards.hpp"
#include "heliograph/train.hpp"
#include "support/allocations.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "train/plan/memory_check.hpp"
#include "train/plan/memory_needs.hpp"
#include "train/process_memory.hpp"

// The memory that a run needs is known before it starts, and equals what it then holds.

namespace heliograph {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TEST(RequireMemory, NamesWhatIsNeededWhatThereIsAndWhatToChange) {
  MemoryNeeds needs;
  needs[MemoryUse::halo] = 6 * kGiB;
  needs[MemoryUse::activations] = 5 * kGiB;
  needs[MemoryUse::weights] = kGiB / 4;
  const std::string sentence =
      test::expect_error(ErrorCode::resource, "", [&] { require_memory(needs, 0, 11 * kGiB); });
  EXPECT_EQ(sentence,
            "training needs at least 11.2 GiB (6.0 GiB for halo, 5.0 GiB for activations) and "
            "this machine has 11.0 GiB available: lower bits, staleness, hidden or layers, or take "
            "partitioner metis");
  needs[MemoryUse::activations] = 7 * kGiB;
  EXPECT_THAT(
      test::expect_error(ErrorCode::resource, "", [&] { require_memory(needs, kGiB, 99 * kGiB); }),
      HasSubstr("memory-limit-mib allows 1.0 GiB: lower hidden or layers"));
  needs.remedies = {.bits = false,
                    .staleness = false,
                    .partitioner = false,
                    .hidden = false,
                    .layers = false,
                    .parts = false};
  EXPECT_THAT(
      test::expect_error(ErrorCode::resource, "", [&] { require_memory(needs, kGiB, 99 * kGiB); }),
      HasSubstr("allows 1.0 GiB: the data set asks for a machine with more memory"));
  EXPECT_NO_THROW(require_memory(needs, 0, needs.total()));
  EXPECT_NO_THROW(require_memory(needs, needs.total(), 0));
  EXPECT_NO_THROW(require_memory(needs, 0, std::nullopt));
}

TrainOptions options_of(ModelKind kind, int bits, int staleness) {
  TrainOptions o;
  o.model.kind = kind;
  o.model.layers = 4;
  o.model.hidden = 70;
  o.exchange.bits_forward = o.exchange.bits_backward = Bits{bits};
  o.exchange.staleness = staleness;
  o.exchange.stale_sites = "all";
  o.partition.parts = 3;
  o.partition.partitioner = Partitioner::random;
  o.epochs = 3;
  o.eval_every = 2;
  return o;
}

/// The least memory is what a run of three ranks then holds of buffers, and little less of all
/// else.
void expect_least_is_held(const Dataset& data, const TrainOptions& o) {
  const TrainResult r = train(data, o);
  const MemoryNeeds least = least_memory(data, o, 0, r.partition.communication_volume);
  EXPECT_EQ(least[MemoryUse::features], r.memory.features);
  EXPECT_EQ(least[MemoryUse::weights], r.memory.weights);
  // Each rank rounds its values per row (two a norm, dagnn's scores) up to whole lines, and has
  // statistics of BatchNorm: 4 of a column, in at most 4 norms of 128 columns.
  const std::int64_t lines = 3 * 6 * 64;
  const std::int64_t statistics = o.model.norm == NormLayer::batch ? 3 * 4 * 4 * 4 * 128 : 0;
  const bool scores = o.model.kind == ModelKind::dagnn;
  EXPECT_LE(least[MemoryUse::gradients], r.memory.gradients);
  EXPECT_GE(least[MemoryUse::gradients] + (scores ? lines : 0), r.memory.gradients);
  EXPECT_LE(least[MemoryUse::activations], r.memory.activations);
  EXPECT_GE(least[MemoryUse::activations] + lines + statistics, r.memory.activations);
  // Each rank has buffers for its largest message. Their sum over ranks is that of the widest
  // exchange, because messages grow with the width. A directed graph has two plans.
  if (!data.graph.directed) {
    EXPECT_EQ(least[MemoryUse::halo], r.memory.halo);
  }
  EXPECT_LE(least[MemoryUse::graph], r.memory.graph);
  EXPECT_GE(least[MemoryUse::graph], r.memory.graph / 2);
  EXPECT_LE(least[MemoryUse::workspace], r.memory.workspace);
  EXPECT_EQ(least[MemoryUse::evaluation], r.memory.evaluation);
  EXPECT_LE(least.total(), r.memory.total());
}

TEST(LeastMemory, IsThatOfEveryExchange) {
  for (const bool directed : {false, true}) {
    const Dataset data = test::make_small_dataset(3000, 50, 7, 3, false, false, directed);
    for (const ModelKind kind : {ModelKind::gcn, ModelKind::sage}) {
      for (const int bits : {32, 1}) {
        for (const int staleness : {0, 1}) {
          for (const bool residual : {false, true}) {
            TrainOptions o = options_of(kind, bits, staleness);
            o.model.residual = residual ? Residual::identity : Residual::none;
            o.model.precompute = !residual;
            o.transport.row_blocks = residual ? 4 : 0;
            o.exchange.stale_sites = residual ? "lowest-backward" : "all";
            o.verify_every = residual ? 1 : 0;
            SCOPED_TRACE(test::name_of(kind) + ", " + std::to_string(bits) + " bits, S = " +
                         std::to_string(staleness) + (directed ? ", directed" : ""));
            expect_least_is_held(data, o);
          }
        }
      }
    }
  }
}

TEST(LeastMemory, IsThatOfEveryModel) {
  const Dataset data = test::make_small_dataset(1500, 50, 7, 3);
  using enum ModelKind;
  for (const ModelKind kind : {gcn, sage, gin, appnp, dagnn, jknet, gcnii, gat, gat_sep, gatv2}) {
    const bool widens =
        kind == gcn || kind == sage || kind == jknet || kind == gat || kind == gatv2;
    for (const NormLayer norm : {NormLayer::layer, NormLayer::batch}) {
      for (const bool wide : {false, true}) {
        if (wide && !widens) continue;
        TrainOptions o = options_of(kind, 32, wide ? 1 : 0);
        if (wide)
          o.exchange.bits_forward = o.exchange.bits_backward = test::bits_for(kind, Bits::one);
        o.model.layers = 3;
        o.model.hidden = 30;
        if (kind == gat || kind == gat_sep || kind == gatv2) o.model.heads = 3;
        o.model.norm = norm;
        o.model.feed_forward = wide ? 2 : 0;
        o.epochs = 1;
        SCOPED_TRACE(test::name_of(kind) + (norm == NormLayer::batch ? ", batch" : ", layer") +
                     (wide ? ", feed-forward 2" : ""));
        expect_least_is_held(data, o);
      }
    }
  }
}

TEST(LeastMemory, CountsWhatEachOfManyRanksHolds) {
  const Dataset data = test::make_small_dataset(1000, 200, 7, 3);
  for (const bool reproducible : {false, true}) {
    TrainOptions o = options_of(ModelKind::sage, 1, 0);
    o.partition.parts = 40;
    o.reproducible = reproducible;
    const TrainResult r = train(data, o);
    const MemoryNeeds least = least_memory(data, o, 0, r.partition.communication_volume);
    for (const MemoryUse use : {MemoryUse::weights, MemoryUse::workspace, MemoryUse::evaluation}) {
      EXPECT_GT(least[use], 0) << memory_use_name(use);
    }
    EXPECT_LE(least[MemoryUse::workspace], r.memory.workspace);
    EXPECT_LE(least[MemoryUse::evaluation], r.memory.evaluation);
    EXPECT_GE(least.total() * 10, r.memory.total() * 8);
  }
}

TEST(LeastMemory, IsNoMoreThanADirectedGraphHolds) {
  // All nodes point to a few: many rows travel forward at 1 bit, few gradients back at 32 bits.
  Dataset data = test::make_small_dataset(3000, 8, 3, 3, false, false, true);
  std::vector<test::Edge> edges;
  for (NodeId v = 10; v < 3000; ++v) edges.emplace_back(v, v % 10);
  data.graph = test::graph_from_edges(3000, edges, true);
  for (const int staleness : {0, 1}) {
    TrainOptions o = options_of(ModelKind::sage, 32, staleness);
    o.exchange.bits_forward = Bits::one;
    const TrainResult r = train(data, o);
    const MemoryNeeds least = least_memory(data, o, 0, r.partition.communication_volume);
    EXPECT_GT(least[MemoryUse::halo], 0);
    EXPECT_LE(least[MemoryUse::halo], r.memory.halo) << "S = " << staleness;
  }
}

TEST(LeastMemory, StaysBeyondWhatCanBeWhereItIsAbsurd) {
  const Dataset data = test::make_small_dataset(300, 8, 3, 3);
  TrainOptions o = options_of(ModelKind::gcn, 32, 0);
  o.model.hidden = 1 << 20;
  o.model.layers = 1024;
  o.partition.parts = 1 << 20;
  EXPECT_GT(least_memory(data, o, 0, std::nullopt).total(), std::int64_t{1} << 50);
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::gat}) {
    o = options_of(kind, 32, 0);
    o.model.heads = 2;
    o.exchange.staleness = o.epochs = std::numeric_limits<int>::max();
    o.exchange.stale_sites = "all";
    o.model.layers = 1024;
    EXPECT_GT(least_memory(data, o, 0, 1 << 30).total(), std::int64_t{1} << 50);
  }
}

TEST(LeastMemory, OfTheLargestModelOfManyNodesIsWithin64Bits) {
  Dataset data = test::make_small_dataset(300, 8, 3, 3);
  data.graph.nodes = data.features.rows = 1 << 28;
  for (const int feed_forward : {0, 64}) {
    TrainOptions o = options_of(ModelKind::gcn, 32, 0);
    o.model.layers = 1024;
    o.model.feed_forward = feed_forward;
    o.model.hidden = (1 << 20) / std::max(feed_forward, 1);
    o.reproducible = true;
    validate(o);
    const MemoryNeeds least = least_memory(data, o, 0, std::nullopt);
    for (const std::int64_t bytes : least.bytes) EXPECT_GE(bytes, 0);
    // Forward saves at least one matrix of hidden columns in each layer.
    const std::int64_t values = data.graph.nodes * o.model.hidden * 1023;
    EXPECT_GT(least[MemoryUse::activations], 4 * values);
    EXPECT_GT(least.total(), least[MemoryUse::activations]);
    o.model.hidden += 1 << 14;
    test::expect_error(ErrorCode::usage, feed_forward > 0 ? "lower either" : "hidden",
                       [&] { validate(o); });
  }
}

TEST(LeastMemory, KnowsTheRowsThatAreStoredAsBf16) {
  const Dataset data = test::make_small_dataset(3000, 50, 7, 3);
  TrainOptions o = options_of(ModelKind::sage, 32, 0);
  const MemoryReport fp32 = train(data, o).memory;
  const std::int64_t least = least_memory(data, o, 0, 0)[MemoryUse::gradients];
  o.model.aggregate_storage = RowStorage::bf16;
  const MemoryReport bf16 = train(data, o).memory;
  // 70 columns, padded to whole lines of 32, and the other scratch of the backward pass.
  const std::int64_t rows = 3000 * 96 * 2;
  EXPECT_EQ(bf16.gradients - fp32.gradients, rows);
  EXPECT_EQ(least_memory(data, o, 0, 0)[MemoryUse::gradients] - least, rows);
  EXPECT_EQ(bf16.total() - fp32.total(), rows);
}

TEST(LeastMemory, CountsTheWeightsOfEdges) {
  const Dataset plain = test::make_small_dataset(3000, 8, 3, 3);
  const Dataset weighted = test::with_weights(plain);
  const TrainOptions o = options_of(ModelKind::sage, 32, 0);
  const std::int64_t bytes = 4 * plain.graph.entries();
  EXPECT_EQ(train(weighted, o).memory.total() - train(plain, o).memory.total(), bytes);
  EXPECT_EQ(least_memory(weighted, o, 0, 0).total() - least_memory(plain, o, 0, 0).total(), bytes);
}

// Few columns are filled, so that sums stay sparse, or so many that they become dense.
TEST(LeastMemory, CountsTheSumsOfSparseFeatures) {
  for (const int cols : {400, 8}) {
    Dataset data = test::make_small_dataset(3000, cols, 7, 3, false, true);
    if (cols == 400) {  // Each row keeps 4 columns.
      std::vector<std::int64_t> offsets{0};
      std::vector<std::int32_t> columns;
      std::vector<float> values;
      for (std::size_t v = 0; v < 3000; ++v) {
        const std::int64_t begin = data.features.offsets[v];
        for (std::size_t i = 0; i < 4; ++i) {
          columns.push_back(data.features.columns[static_cast<std::size_t>(begin) + 9 * i]);
          values.push_back(1);
        }
        offsets.push_back(static_cast<std::int64_t>(columns.size()));
      }
      data.features.offsets = offsets;
      data.features.columns = columns;
      data.features.values = values;
    }
    for (const ModelKind kind : {ModelKind::gcn, ModelKind::sage}) {
      TrainOptions o = options_of(kind, 32, 0);
      o.model.layers = 1;
      const TrainResult r = train(data, o);
      const MemoryNeeds least = least_memory(data, o, 0, r.partition.communication_volume);
      const std::int64_t held = r.memory.features;
      EXPECT_LE(least[MemoryUse::features], held);
      // Offsets of rows and columns are not counted, and rows of few entries among dense ones.
      EXPECT_GE(least[MemoryUse::features] + 3 * 3 * 8 * (3000 / 3 + cols + 2),
                cols == 400 ? held : held * 9 / 10)
          << test::name_of(kind) << ", " << cols;
    }
  }
}

TEST(MemoryCheck, ComesBeforeThePartition) {
  const Dataset data = test::make_small_dataset(300, 8, 3, 3);
  TrainOptions o = options_of(ModelKind::gcn, 32, 0);
  o.partition.partitioner = Partitioner::file;
  o.partition.file = "no such file";
  EXPECT_THAT(test::expect_error(ErrorCode::bad_input, "", [&] { train(data, o); }),
              HasSubstr("no such file"));
  o.partition.parts = 2;
  o.model.hidden = 1 << 20;  // A weight matrix of 4 TiB.
  test::expect_error(ErrorCode::resource, {"for weights", "lower hidden, layers or parts"},
                     [&] { train(data, o); });
}

/// The advice to a run that needs too much for `use` and has these remedies.
std::string advice_of(MemoryUse use, const Remedies& remedies) {
  MemoryNeeds needs;
  needs[use] = kGiB;
  needs.remedies = remedies;
  const std::string text =
      test::expect_error(ErrorCode::resource, "", [&] { require_memory(needs, 1, 1); });
  return text.substr(text.rfind(": ") + 2);
}

TEST(MemoryCheck, AdvisesOnlyWhatWouldHelp) {
  const auto advice = [](MemoryUse use, const TrainOptions& o, bool cut) {
    return advice_of(use, remedies_of(o, cut, o.transport.row_blocks > 1, false));
  };
  TrainOptions o = options_of(ModelKind::gcn, 32, 1);
  o.partition.partitioner = Partitioner::random;
  EXPECT_EQ(advice(MemoryUse::halo, o, false),
            "lower bits or staleness, or take partitioner metis");
  EXPECT_EQ(advice(MemoryUse::halo, o, true), "lower bits or staleness");
  EXPECT_EQ(advice(MemoryUse::weights, o, true), "lower hidden or layers");
  o.exchange = {};
  EXPECT_EQ(advice(MemoryUse::halo, o, false), "lower bits, or take partitioner metis");
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
  EXPECT_EQ(advice(MemoryUse::halo, o, false), "take partitioner metis");
  o.exchange.bits_policy = BitsPolicy::degree;
  EXPECT_EQ(advice(MemoryUse::halo, o, true), "take bits-policy uniform");
  o.exchange.bits_policy = BitsPolicy::uniform;
  o.model.layers = 1;
  EXPECT_EQ(advice(MemoryUse::activations, o, false), "lower hidden");
  o.transport.row_blocks = 8;
  EXPECT_EQ(advice(MemoryUse::activations, o, false), "lower row-blocks or hidden");
  EXPECT_EQ(advice(MemoryUse::gradients, o, false), "lower row-blocks or hidden");
  EXPECT_EQ(advice(MemoryUse::halo, o, true), "lower row-blocks");
  o.verify_every = 1;
  EXPECT_EQ(advice(MemoryUse::activations, o, false),
            "lower row-blocks or hidden, or leave out verify");
  o.verify_every = 0;
  EXPECT_EQ(advice(MemoryUse::features, o, false),
            "lower row-blocks, hidden or parts, or take partitioner metis, or use a machine with "
            "more memory");
}

TEST(MemoryCheck, AdvisesWhatMayAloneBeEnoughToo) {
  MemoryNeeds needs;
  needs[MemoryUse::activations] = 3 * kGiB;
  needs[MemoryUse::halo] = 2 * kGiB;
  needs.remedies = remedies_of(options_of(ModelKind::gcn, 32, 0), true, false, false);
  const auto advice = [&](std::int64_t limit) {
    const auto check = [&] { require_memory(needs, limit, std::nullopt); };
    const std::string text = test::expect_error(ErrorCode::resource, "", check);
    return text.substr(text.rfind(": ") + 2);
  };
  EXPECT_EQ(advice(3 * kGiB + 1), "lower bits, hidden or layers");
  EXPECT_EQ(advice(3 * kGiB), "lower hidden or layers");
}

TEST(MemoryCheck, AdvisesOneBlockWhereTheRunHasChosenSeveral) {
  const TrainOptions o = options_of(ModelKind::gcn, 1, 0);
  EXPECT_EQ(advice_of(MemoryUse::halo, remedies_of(o, true, true, false)), "take row-blocks 1");
  EXPECT_EQ(advice_of(MemoryUse::gradients, remedies_of(o, true, true, false)),
            "lower hidden or layers, or take row-blocks 1");
  EXPECT_EQ(advice_of(MemoryUse::activations, remedies_of(o, true, true, false)),
            "lower hidden or layers, or take row-blocks 1");
}

TEST(MemoryCheck, AdvisesAResumedRunOnlyWhatItMayChange) {
  TrainOptions o = options_of(ModelKind::gcn, 32, 1);
  o.partition.partitioner = Partitioner::random;
  o.checkpoint.resume = "epoch-000001";
  const std::string none = "a resumed run cannot use less, so give it more memory";
  for (const MemoryUse use : {MemoryUse::halo, MemoryUse::weights, MemoryUse::features}) {
    EXPECT_EQ(advice_of(use, remedies_of(o, false, false, false)), none);
  }
  EXPECT_EQ(advice_of(MemoryUse::activations, remedies_of(o, false, true, false)),
            "take row-blocks 1");
  EXPECT_EQ(advice_of(MemoryUse::features, remedies_of(o, false, true, false)),
            "take row-blocks 1, or use a machine with more memory");
  o.transport.row_blocks = 8;
  o.verify_every = 1;
  EXPECT_EQ(advice_of(MemoryUse::activations, remedies_of(o, false, false, false)),
            "take verify 0");
  EXPECT_EQ(advice_of(MemoryUse::halo, remedies_of(o, false, true, true)),
            "lower row-blocks, or take verify 0, or leave out guard if the checkpoint's run had "
            "none");
}

TEST(MemoryCheck, CountsTheLargestExchangeOfAPolicyOfBits) {
  const Dataset data = test::make_small_dataset(3000, 50, 7, 3);
  const auto halo = [&](BitsPolicy policy, int bits, int staleness) {
    TrainOptions o = options_of(ModelKind::sage, bits, staleness);
    o.exchange.bits_policy = policy;
    return least_memory(data, o, 0, 1000)[MemoryUse::halo];
  };
  const auto uniform = std::bind_front(halo, BitsPolicy::uniform);
  const auto trend = std::bind_front(halo, BitsPolicy::trend);
  EXPECT_EQ(trend(1, 0), uniform(8, 0));
  EXPECT_EQ(trend(1, 2), std::max(uniform(4, 2), uniform(8, 0)));
  EXPECT_EQ(trend(8, 2), uniform(8, 2));
  TrainOptions o = options_of(ModelKind::sage, 4, 2);
  o.exchange.bits_policy = BitsPolicy::degree;
  EXPECT_EQ(advice_of(MemoryUse::halo, remedies_of(o, true, false, false)),
            "lower staleness, or take bits-policy uniform");
}

TEST(MemoryCheck, HoldsARunToTheByteThatItCounts) {
  const Dataset data = test::make_small_dataset(3000, 8, 3, 3);
  TrainOptions o = options_of(ModelKind::sage, 8, 1);
  o.eval_every = 100;
  o.epochs = 2;
  o.verify_every = 2;
  const TrainResult r = train(data, o);
  // Kernels and evaluation allocate more after the check, but for sums of gradients in fp32 and,
  // for verification, in fp64.
  const std::int64_t sums = (4 + 8) * (o.partition.parts - 1) * r.parameters;
  const std::int64_t checked = r.memory.total() - r.memory.workspace - r.memory.evaluation + sums;
  const auto sentence = [&](std::int64_t limit) {
    o.memory_limit_bytes = limit;
    return test::expect_error(ErrorCode::resource, "", [&] { train(data, o); });
  };
  o.memory_limit_bytes = r.memory.total();
  EXPECT_NO_THROW(train(data, o));
  EXPECT_THAT(sentence(checked - 1), HasSubstr("memory-limit-mib allows"));
  // Shards are checked once, when the buffers are allocated, with what the first epochs add.
  test::TemporaryDirectory folder;
  write_shards(data, make_partition(data.graph, o.partition), o, folder / "shards");
  const auto from_shards = [&] { train_shards(folder / "shards", o); };
  o.memory_limit_bytes = checked;
  test::expect_error(ErrorCode::resource, "memory-limit-mib allows", from_shards);
  o.memory_limit_bytes = r.memory.total();
  EXPECT_NO_THROW(from_shards());
  // A run that is known not to fit is refused before ranks start.
  const MemoryNeeds least = least_memory(data, o, 0, r.partition.communication_volume);
  EXPECT_THAT(sentence(least.total() - 1), Not(HasSubstr("rank")));
}

TEST(MemoryCheck, CountsTheBlocksOfEvaluation) {
  // Training saves too little to lend memory to evaluation.
  const Dataset data = test::make_small_dataset(3000, 8, 3, 3);
  TrainOptions o = options_of(ModelKind::appnp, 1, 0);
  o.model.layers = 1;
  o.partition.parts = 8;
  const TrainResult r = train(data, o);
  const std::int64_t blocks = r.memory.evaluation - o.partition.parts * 4 * r.parameters;
  ASSERT_GT(blocks, 4 * 3000) << "nothing to count";
  o.memory_limit_bytes = r.memory.total() - r.memory.workspace - blocks / 2;
  test::expect_error(ErrorCode::resource, {"memory-limit-mib allows"}, [&] { train(data, o); });
  o.memory_limit_bytes = r.memory.total();
  EXPECT_NO_THROW(train(data, o));
}

TEST(Memory, RoomsAddUpToTheGrowthOfTheProcess) {
  if (!test::allocations_are_counted()) GTEST_SKIP() << "sanitizers keep shadows and freed memory";
  const Dataset data = test::make_small_dataset(60000, 64, 8, 3);
  TrainOptions o = options_of(ModelKind::sage, 8, 0);
  o.model.hidden = 128;
  train(test::make_small_dataset(300, 8, 3, 3), o);  // Loads code and threads' stacks.
  malloc_trim(0);
  ASSERT_TRUE(reset_peak_rss());
  const std::int64_t before = peak_rss_bytes();
  const TrainResult r = train(data, o);
  const std::int64_t grown = r.peak_rss_bytes - before;
  EXPECT_GT(r.memory.total(), 200 << 20);
  // Each rank's arena ends within a huge page. What ranks share (partition, index and roles, about
  // 20 bytes per node), freed memory of setup, and reports add a little.
  const std::int64_t slack = 3 * (2 << 20) + 60000 * 20 + (24 << 20);
  EXPECT_GE(grown, r.memory.total() - (4 << 20));
  EXPECT_LE(grown, r.memory.total() + slack);
}

TEST(Memory, EvaluationTakesWhatTrainingLeavesIdle) {
  const Dataset data = test::make_small_dataset(3000, 8, 3, 3);
  TrainOptions o = options_of(ModelKind::gcn, 32, 1);
  o.eval_every = 1;
  for (const NormLayer norm : {NormLayer::layer, NormLayer::batch}) {
    o.model.norm = norm;
    const TrainResult r = train(data, o);
    // Each rank holds the best epoch's weights and statistics. Halos use the memory of activations.
    const std::int64_t statistics = norm == NormLayer::batch ? 3 * 2 * o.model.hidden : 0;
    EXPECT_EQ(r.memory.evaluation, o.partition.parts * 4 * (r.parameters + statistics));
    EXPECT_GT(r.evaluation_bytes, 0);
    EXPECT_EQ(least_memory(data, o, 0, 0)[MemoryUse::evaluation], r.memory.evaluation);
  }
}

}  // namespace
}  // namespace heliograph
