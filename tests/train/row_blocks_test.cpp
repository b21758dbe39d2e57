#include "train/plan/row_blocks.hpp"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

// In how many blocks of rows passes run changes when rows travel, and no bit.

namespace heliograph {
namespace {

class RowBlocks : public ::testing::TestWithParam<ModelKind> {};

TEST_P(RowBlocks, ChangeNoBit) {
  // Blocks are of at least kRowTile rows.
  const Dataset plain = test::make_small_dataset(1300, 20, 5, 3);
  const Dataset directed = test::make_small_dataset(1300, 20, 5, 3, false, false, true);
  for (const auto& [bits, staleness, ranks, rows] :
       {std::tuple{Bits::eight, 0, 4, ExchangedRows::boundary},
        {Bits::fp32, 1, 3, ExchangedRows::automatic},
        {Bits::bf16, 2, 2, ExchangedRows::boundary}}) {
    TrainOptions o = test::small_options(ranks, 4);
    o.model.kind = GetParam();
    o.model.layers = 3;
    o.model.hidden = 24;
    o.model.dropout = 0.4F;
    o.model.norm = ranks == 3 ? NormLayer::batch : NormLayer::layer;
    o.exchange.bits_forward = o.exchange.bits_backward = bits;
    o.exchange.staleness = staleness;
    o.exchange.sync_every = 3;
    o.exchange.stale_sites = ranks == 2 ? "lowest-backward" : "all";
    o.exchange.rows = rows;
    o.exchange.kept_columns = ranks == 4;
    o.inductive = ranks == 2;
    const Dataset& data = ranks == 3 ? directed : plain;
    o.transport.row_blocks = 1;
    const TrainResult one = train(data, o);
    SCOPED_TRACE(::testing::Message() << ranks << " ranks");
    o.transport.row_blocks = 64;  // As many as there are tiles.
    o.transport.threads_per_rank = 3;
    test::expect_same_run(one, train(data, o));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RowBlocks, ::testing::ValuesIn(test::all_models()),
                         [](const auto& p) { return test::name_of(p.param); });

TEST(RowBlocks, OfAnyNumberChangeNoBit) {
  const Dataset data = test::make_small_dataset(3000, 12, 4, 3);
  TrainOptions o = test::small_options(2, 2);
  o.model.kind = ModelKind::gcn;
  o.model.layers = 3;
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
  o.transport.row_blocks = 1;
  const TrainResult one = train(data, o);
  for (const int blocks : {2, 5, 64}) {
    SCOPED_TRACE(blocks);
    o.transport.row_blocks = blocks;
    test::expect_same_run(one, train(data, o));
  }
}

// Ranks with rows for one block only announce gradients in the order of the others.
TEST(RowBlocks, MayBeFewerOnSomeRanks) {
  const Dataset data = test::make_small_dataset(1100, 12, 4, 3);
  const test::TemporaryDirectory folder;
  std::string owners;
  for (int v = 0; v < 1100; ++v) owners += v < 10 ? "0\n" : v < 200 ? "1\n" : "2\n";
  test::write_text(folder / "owners", owners);
  TrainOptions o = test::small_options(3, 3);
  o.model.layers = 3;
  o.model.hidden = 16;
  o.partition.partitioner = Partitioner::file;
  o.partition.file = folder / "owners";
  for (const ModelKind kind : test::all_models()) {
    SCOPED_TRACE(test::name_of(kind));
    o.model.kind = kind;
    o.transport.row_blocks = 1;
    const TrainResult one = train(data, o);
    o.transport.row_blocks = 3;
    test::expect_same_run(one, train(data, o));
  }
}

TEST(RowBlocks, MayDifferInAResumedRun) {
  const Dataset data = test::make_small_dataset(1100, 12, 4, 3);
  for (const ModelKind kind :
       {ModelKind::gcn, ModelKind::gin, ModelKind::gcnii, ModelKind::gat, ModelKind::gatv2}) {
    SCOPED_TRACE(test::name_of(kind));
    const test::TemporaryDirectory folder;
    TrainOptions o = test::small_options(2, 4);
    o.model.kind = kind;
    o.model.layers = 3;
    o.model.hidden = 16;
    o.transport.row_blocks = 1;
    const TrainResult whole = train(data, o);
    o.epochs = 2;
    o.checkpoint.folder = folder / "c";
    o.checkpoint.every = 2;
    train(data, o);
    o.epochs = 4;
    o.checkpoint.resume = folder / "c" / "epoch-000002";
    o.transport.row_blocks = 3;
    test::expect_same_run(whole, train(data, o));
  }
}

// Edges lead from the first rank's nodes to the second's, which sends nothing forward.
TEST(RowBlocks, KeepColumnsOnARankThatOnlyReceives) {
  Dataset data = test::make_small_dataset(600, 12, 4, 3, false, false, true);
  std::vector<NodeId> sources, targets;
  for (NodeId v = 0; v + 7 < 600; ++v) {
    for (const NodeId step : {1, 7}) {
      sources.push_back(v);
      targets.push_back(v + step);
    }
  }
  data.graph = make_graph(600, sources, targets, true);
  TrainOptions o = test::small_options(2, 3);
  o.model.kind = ModelKind::gcn;
  o.model.layers = 3;
  o.model.hidden = 16;
  o.model.dropout = 0.5F;
  o.model.norm = NormLayer::none;
  o.model.transform_first = false;
  o.partition.partitioner = Partitioner::contiguous;
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::two;
  o.transport.row_blocks = 2;
  const TrainResult all = train(data, o);
  o.exchange.kept_columns = true;
  const TrainResult kept = train(data, o);
  EXPECT_TRUE(kept.kept_columns);
  EXPECT_LT(kept.bytes_per_epoch.halo_forward, all.bytes_per_epoch.halo_forward);
  test::expect_same_numbers(all, kept);
}

TEST(RowBlocksOfARun, FollowTheRowsUnlessTheyAreGiven) {
  TrainOptions o;
  EXPECT_EQ(row_blocks(o, 1000000, 4), 1) << "buffers of fp32 rows are large";
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::eight;
  EXPECT_EQ(row_blocks(o, 1000000, 1), 1);
  EXPECT_EQ(row_blocks(o, 1000, 4), 1);
  EXPECT_EQ(row_blocks(o, 4 * 3000, 4), 2);
  EXPECT_EQ(row_blocks(o, 1000000, 4), 8);
  o.exchange.staleness = 1;
  EXPECT_EQ(row_blocks(o, 1000000, 4), 8) << "most rows must arrive in their epoch";
  o.exchange.stale_sites = "all";
  EXPECT_EQ(row_blocks(o, 1000000, 4), 1) << "none need";
  o.transport.row_blocks = 5;
  EXPECT_EQ(row_blocks(o, 1000, 4), 5);
  o.transport.device = DeviceKind::cuda;
  EXPECT_EQ(row_blocks(o, 1000000, 4), 5);
  o.transport.row_blocks = 0;
  o.exchange.stale_sites = {};
  EXPECT_EQ(row_blocks(o, 1000000, 4), 1) << "on a device more were never measured";
  o = {};
  o.transport.row_blocks = 65;
  test::expect_error(ErrorCode::usage, {"row-blocks must be from 0 to 64, not 65"},
                     [&] { train(test::make_small_dataset(20, 2, 2, 5), o); });
}

}  // namespace
}  // namespace heliograph
