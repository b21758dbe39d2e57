#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "heliograph/train.hpp"
#include "nccl_run.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

// Whole runs over NCCL, one emulated device a rank: messages change their way, nothing else.

namespace heliograph {
namespace {

class NcclTraining : public test::NcclTest {};

/// Expects the same numbers over NCCL as between threads.
void expect_bits_of_threads(const Dataset& data, TrainOptions o) {
  o.transport.device = DeviceKind::cuda;
  o.transport.kind = TransportKind::threads;
  const TrainResult threads = train(data, o);
  o.transport.kind = TransportKind::nccl;
  const TrainResult nccl = train(data, o);
  ASSERT_EQ(nccl.epochs.size(), threads.epochs.size());
  for (std::size_t e = 0; e < threads.epochs.size(); ++e) {
    EXPECT_EQ(nccl.epochs[e].loss, threads.epochs[e].loss) << e;
    EXPECT_EQ(nccl.epochs[e].bytes.total(), threads.epochs[e].bytes.total());
  }
  EXPECT_EQ(nccl.predictions, threads.predictions);
}

TEST_F(NcclTraining, HasTheBitsOfThreads) {
  const Dataset data = test::make_small_dataset(80, 12, 4, 5);
  for (const int ranks : {1, 2, 4}) {
    for (const int staleness : {0, 2}) {
      SCOPED_TRACE(::testing::Message() << ranks << " ranks, S = " << staleness);
      TrainOptions o = test::small_options(ranks, 4);
      o.model.layers = 3;
      o.model.hidden = 12;
      o.exchange.bits_forward = Bits::two;
      o.exchange.bits_backward = Bits::four;
      o.exchange.staleness = staleness;
      expect_bits_of_threads(data, o);
    }
  }
}

// Messages of a piece wait for those of all ranks, of which the first makes its rows in two blocks
// and the others in one.
TEST_F(NcclTraining, HasTheBitsOfThreadsInBlocks) {
  const Dataset data = test::make_small_dataset(340, 12, 4, 5);
  const test::TemporaryDirectory folder;
  std::string owners;
  for (int v = 0; v < 340; ++v) owners += v % 9 > 0 ? "0\n" : v % 2 == 0 ? "1\n" : "2\n";
  test::write_text(folder / "owners", owners);
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::gat}) {
    SCOPED_TRACE(test::name_of(kind));
    TrainOptions o = test::small_options(3, 3);
    o.model.kind = kind;
    o.model.layers = 3;
    o.model.hidden = 8;
    o.partition.partitioner = Partitioner::file;
    o.partition.file = folder / "owners";
    o.exchange.bits_forward = o.exchange.bits_backward = Bits::eight;
    o.exchange.rows = kind == ModelKind::gcn ? ExchangedRows::cover : ExchangedRows::boundary;
    o.exchange.kept_columns = kind == ModelKind::gcn;
    o.model.dropout = 0.5F;
    o.exchange.staleness = kind == ModelKind::gat ? 1 : 0;
    o.exchange.stale_sites = "all";
    o.transport.row_blocks = 3;
    expect_bits_of_threads(data, o);
  }
}

// The ranks know the lengths of messages at the beginning of each epoch.
TEST_F(NcclTraining, KeptColumnsChangeBytesAlone) {
  const Dataset data = test::make_small_dataset(80, 12, 4, 5);
  for (const int staleness : {0, 2}) {
    SCOPED_TRACE(staleness);
    TrainOptions o = test::small_options(3, 6);
    o.model.layers = 3;
    o.transport.device = DeviceKind::cuda;
    o.transport.kind = TransportKind::nccl;
    o.exchange.rows = ExchangedRows::cover;
    o.model.dropout = 0.5F;
    o.exchange.bits_forward = o.exchange.bits_backward = Bits::two;
    o.exchange.staleness = staleness;
    const TrainResult all = train(data, o);
    o.exchange.kept_columns = true;
    const TrainResult kept = train(data, o);
    ASSERT_EQ(kept.epochs.size(), all.epochs.size());
    for (std::size_t e = 0; e < all.epochs.size(); ++e) {
      EXPECT_EQ(kept.epochs[e].loss, all.epochs[e].loss) << e;
      EXPECT_LT(kept.epochs[e].bytes.total(), all.epochs[e].bytes.total()) << e;
    }
    EXPECT_EQ(kept.predictions, all.predictions);
  }
}

// The norm needs the sums of all ranks before any weight changes.
TEST_F(NcclTraining, ClipsGradientsAsTheCpuDoes) {
  const Dataset data = test::make_small_dataset(80, 12, 4, 5);
  TrainOptions o = test::small_options(3, 8);
  o.optimizer.clip_norm = 0.05F;
  o.transport.kind = TransportKind::threads;
  const TrainResult cpu = train(data, o);
  o.transport.device = DeviceKind::cuda;
  const TrainResult threads = train(data, o);
  o.transport.kind = TransportKind::nccl;
  const TrainResult nccl = train(data, o);
  o.optimizer.clip_norm = 0;
  const TrainResult unclipped = train(data, o);
  for (std::size_t e = 0; e < cpu.epochs.size(); ++e) {
    EXPECT_NEAR(threads.epochs[e].loss, cpu.epochs[e].loss, 1e-4) << e;
    EXPECT_EQ(nccl.epochs[e].loss, threads.epochs[e].loss) << e;
  }
  EXPECT_GT(std::abs(unclipped.epochs.back().loss - cpu.epochs.back().loss), 1e-3);
}

TEST_F(NcclTraining, RefusesMoreRanksThanDevices) {
  const Dataset data = test::make_small_dataset(80, 12, 4, 5);
  TrainOptions o = test::small_options(5, 2);
  o.transport.device = DeviceKind::cuda;
  o.transport.kind = TransportKind::nccl;
  test::expect_error(ErrorCode::usage, "device", [&] { train(data, o); });
}

}  // namespace
}  // namespace heliograph
