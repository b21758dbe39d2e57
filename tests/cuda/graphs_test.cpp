#include "support/graphs.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/kernels.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/train.hpp"
#include "support/files.hpp"
#include "support/runs.hpp"

// Runs with CUDA graphs have the bits of runs without them.

namespace heliograph {
namespace {

constexpr int kGraphEpochs = 6;

struct GraphCase {
  std::string name;
  ModelKind kind = ModelKind::gcn;
  bool sparse = false;
  void (*change)(TrainOptions&) = [](TrainOptions&) {};
};

void PrintTo(const GraphCase& c, std::ostream* out) { *out << c.name; }

TrainOptions graph_options(const GraphCase& c, int ranks) {
  TrainOptions o = test::small_options(ranks, kGraphEpochs);
  o.transport.device = DeviceKind::cuda;
  o.transport.kind = TransportKind::threads;
  o.model.kind = c.kind;
  o.model.layers = 3;
  o.model.dropout = 0.3F;
  o.eval_every = 3;
  c.change(o);
  return o;
}

void expect_same(const TrainResult& one, const TrainResult& other) {
  ASSERT_EQ(one.epochs.size(), other.epochs.size());
  for (std::size_t e = 0; e < one.epochs.size(); ++e) {
    EXPECT_EQ(one.epochs[e].loss, other.epochs[e].loss) << "epoch " << e;
    EXPECT_EQ(one.epochs[e].test_metric, other.epochs[e].test_metric) << "epoch " << e;
  }
  EXPECT_EQ(one.predictions, other.predictions);
}

class CudaGraphsRun : public ::testing::TestWithParam<GraphCase> {};

TEST_P(CudaGraphsRun, IsTheRunWithout) {
  if (cuda_devices() == 0) GTEST_SKIP() << "no CUDA device";
  const GraphCase& c = GetParam();
  const Dataset data = test::make_small_dataset(80, 12, 4, 5, false, c.sparse);
  for (const int ranks : {1, 4}) {
    SCOPED_TRACE(ranks);
    TrainOptions o = graph_options(c, ranks);
    o.transport.cuda_graphs = CudaGraphs::off;
    const TrainResult without = train(data, o);
    o.transport.cuda_graphs = CudaGraphs::on;
    expect_same(train(data, o), without);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, CudaGraphsRun,
    ::testing::Values(GraphCase{"Gcn"}, GraphCase{"Sage", ModelKind::sage},
                      GraphCase{"SparseFeatures", ModelKind::gcn, true},
                      GraphCase{"SparseSage", ModelKind::sage, true},
                      // The model swaps its scratch an odd number of times.
                      GraphCase{"TwoLayers", ModelKind::sage, false,
                                [](TrainOptions& o) { o.model.layers = 2; }},
                      GraphCase{"OneBit", ModelKind::sage, false,
                                [](TrainOptions& o) {
                                  o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
                                }},
                      GraphCase{"OneBitStale", ModelKind::gcn, false,
                                [](TrainOptions& o) {
                                  o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
                                  o.exchange.staleness = 2;
                                }},
                      GraphCase{"ExactStale", ModelKind::sage, false,
                                [](TrainOptions& o) { o.exchange.staleness = 2; }},
                      GraphCase{"SyncEvery", ModelKind::gcn, false,
                                [](TrainOptions& o) {
                                  o.exchange.bits_forward = Bits::four;
                                  o.exchange.staleness = 1;
                                  o.exchange.sync_every = 3;
                                  o.eval_every = 1;
                                }},
                      GraphCase{"WithoutPrecompute", ModelKind::gcn, false,
                                [](TrainOptions& o) { o.model.precompute = false; }},
                      GraphCase{"ResidualWithoutNorm", ModelKind::gcn, false,
                                [](TrainOptions& o) {
                                  o.model.residual = Residual::identity;
                                  o.model.norm = NormLayer::none;
                                }},
                      GraphCase{"GinBatchNorm", ModelKind::gin, false,
                                [](TrainOptions& o) { o.model.norm = NormLayer::batch; }},
                      GraphCase{"Dagnn", ModelKind::dagnn},
                      GraphCase{"Gat", ModelKind::gat, false,
                                [](TrainOptions& o) {
                                  o.model.layers = 2;
                                  o.model.attention_dropout = 0.3F;
                                  o.exchange.bits_forward = Bits::two;
                                  o.exchange.staleness = 1;
                                }},
                      GraphCase{"Gatv2", ModelKind::gatv2, false,
                                [](TrainOptions& o) {
                                  o.model.layers = 2;
                                  o.model.attention_dropout = 0.3F;
                                  o.exchange.bits_forward = Bits::eight;
                                  o.exchange.staleness = 1;
                                }},
                      GraphCase{"Inductive", ModelKind::sage, false,
                                [](TrainOptions& o) { o.inductive = true; }}),
    [](const auto& p) { return p.param.name; });

TEST(CudaGraphs, ARunGoesOnFromACheckpoint) {
  if (cuda_devices() == 0) GTEST_SKIP() << "no CUDA device";
  const Dataset data = test::make_small_dataset(80, 12, 4, 5);
  const test::TemporaryDirectory folder;
  TrainOptions o = graph_options({"", ModelKind::gcn, false,
                                  [](TrainOptions& changed) {
                                    changed.exchange.bits_forward = Bits::one;
                                    changed.exchange.staleness = 2;
                                  }},
                                 2);
  o.transport.cuda_graphs = CudaGraphs::off;
  const TrainResult whole = train(data, o);
  o.transport.cuda_graphs = CudaGraphs::on;
  o.checkpoint.folder = folder / "run";
  o.checkpoint.every = 1000;
  o.epochs = 4;
  train(data, o);
  o.epochs = kGraphEpochs;
  o.checkpoint.resume = newest_checkpoint(folder / "run");
  expect_same(train(data, o), whole);
}

}  // namespace
}  // namespace heliograph
