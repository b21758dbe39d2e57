#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "emulation.hpp"
#include "heliograph/train.hpp"
#include "nccl_run.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

// What an epoch asks an emulated device for, with CUDA graphs and without.

namespace heliograph {
namespace {

/// EpochCalls of one epoch, of all ranks.
struct EpochCalls {
  std::int64_t kernels = 0;   ///< Launches of one kernel.
  std::int64_t products = 0;  ///< Of cuBLAS.
  std::int64_t graphs = 0;    ///< Launches of one graph.
  std::int64_t made = 0;      ///< Graphs that were made.
  std::int64_t changed = 0;   ///< Kernels in graphs.
  std::int64_t allocations = 0;

  static EpochCalls now() {
    using cuda_emulation::calls;
    return {calls("cudaLaunchKernel"),
            calls("cublasSgemm") + calls("cublasLtMatmul"),
            calls("cudaGraphLaunch"),
            calls("cudaGraphInstantiate"),
            calls("cudaGraphExecKernelNodeSetParams"),
            calls("cudaMallocAsync") + calls("cudaMallocHost")};
  }
  EpochCalls operator-(const EpochCalls& o) const {
    return {kernels - o.kernels, products - o.products, graphs - o.graphs,
            made - o.made,       changed - o.changed,   allocations - o.allocations};
  }
};

class CudaGraphEpochs : public test::NcclTest {
 protected:
  /// Of each epoch but the first and the last one, with the evaluations behind them.
  std::vector<EpochCalls> epochs(const TrainOptions& o) {
    std::vector<EpochCalls> seen;
    TrainCallbacks callbacks;
    callbacks.on_epoch = [&](const EpochReport&) {
      seen.push_back(EpochCalls::now());
      return EpochAction::proceed;
    };
    train(data, o, callbacks);
    std::vector<EpochCalls> each;
    for (std::size_t e = 1; e < seen.size(); ++e) each.push_back(seen[e] - seen[e - 1]);
    each.pop_back();  // An evaluation that others lack.
    return each;
  }
  static TrainOptions options(int ranks, int count) {
    TrainOptions o = test::small_options(ranks, count);
    o.model.kind = ModelKind::gcn;
    o.model.layers = 3;
    o.model.dropout = 0.5F;
    o.transport.device = DeviceKind::cuda;
    o.transport.kind = TransportKind::threads;
    o.transport.cuda_graphs = CudaGraphs::on;
    o.eval_every = 100;
    return o;
  }

  const Dataset data = test::make_small_dataset(80, 12, 4, 5);
};

// The figures of docs/gpu_design.md: dropout, LayerNorm, dense features.
TEST_F(CudaGraphEpochs, AThreeLayerGcnTakesFewLaunches) {
  TrainOptions o = options(1, 8);
  o.transport.cuda_graphs = CudaGraphs::off;
  const EpochCalls without = epochs(o).back();
  EXPECT_EQ(without.kernels + without.products, 36);
  EXPECT_EQ(without.graphs, 0);
  o.transport.cuda_graphs = CudaGraphs::on;
  const EpochCalls with = epochs(o).back();
  EXPECT_EQ(with.graphs, 2) << "until the loss and the end";
  EXPECT_EQ(with.kernels, 0);
  EXPECT_EQ(with.products, 0);
  EXPECT_EQ(with.changed, 15) << "dropout in three passes forward and two back, Adam of ten";
}

/// Other ranks may be in the next epoch when rank 0 tells of one: sums over epochs are counted.
EpochCalls sum(const std::vector<EpochCalls>& each, std::size_t from) {
  EpochCalls all;
  for (std::size_t e = from; e < each.size(); ++e) all = all - (EpochCalls() - each[e]);
  return all;
}

TEST_F(CudaGraphEpochs, RanksAskForGraphsBetweenTheirWaits) {
  TrainOptions o = options(2, 24);
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
  const EpochCalls with = sum(epochs(o), 2);
  o.transport.cuda_graphs = CudaGraphs::off;
  const EpochCalls without = sum(epochs(o), 2);
  EXPECT_EQ(with.products, 0);
  EXPECT_LT(with.kernels + with.graphs, (without.kernels + without.products) / 2);
}

TEST_F(CudaGraphEpochs, NothingIsMadeOrAllocatedFromTheFourthEpochOn) {
  const std::size_t graphs_before = cuda_emulation::live_graphs();
  const std::int64_t waits_before = cuda_emulation::calls("cudaDeviceSynchronize");
  for (const TransportKind kind : {TransportKind::threads, TransportKind::nccl}) {
    for (const int staleness : {0, 2}) {
      for (const int layers : {2, 3}) {
        TrainOptions o = options(3, 8);
        o.model.layers = layers;
        o.transport.kind = kind;
        o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
        o.exchange.staleness = staleness;
        const std::int64_t made = cuda_emulation::calls("cudaGraphInstantiate");
        const std::vector<EpochCalls> each = epochs(o);
        EXPECT_GT(cuda_emulation::calls("cudaGraphInstantiate"), made);
        for (std::size_t e = 2; e < each.size(); ++e) {
          SCOPED_TRACE(::testing::Message()
                       << layers << " layers, S = " << staleness << ", epoch " << e + 1);
          EXPECT_EQ(each[e].made, 0);
          EXPECT_EQ(each[e].allocations, 0);
          EXPECT_EQ(each[e].products, 0);
          EXPECT_GT(each[e].graphs, 0);
        }
      }
    }
  }
  EXPECT_EQ(cuda_emulation::live_graphs(), graphs_before);
  EXPECT_EQ(cuda_emulation::calls("cudaDeviceSynchronize"), waits_before);
}

TEST_F(CudaGraphEpochs, SynchronousEpochsAndEvaluationInBetweenChangeNoGraph) {
  TrainOptions o = options(2, 12);
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::four;
  o.exchange.staleness = 2;
  o.exchange.sync_every = 4;
  o.eval_every = 2;
  const std::vector<EpochCalls> each = epochs(o);
  for (std::size_t e = 2; e < each.size(); ++e) EXPECT_EQ(each[e].made, 0) << e + 1;
}

TEST_F(CudaGraphEpochs, SmallPartsTakeThemByThemselves) {
  TrainOptions o = options(1, 5);
  o.transport.cuda_graphs = CudaGraphs::automatic;
  EXPECT_GT(sum(epochs(o), 0).graphs, 0);
  // 80 rows of more than 8 MiB together.
  o.model.hidden = (8 << 20) / 4 / 80 + 1;
  o.model.layers = 2;
  o.epochs = 3;
  EXPECT_EQ(sum(epochs(o), 0).graphs, 0);
}

TEST_F(CudaGraphEpochs, TheReportSaysHowManyRanksTookThem) {
  TrainOptions o = options(3, 1);
  EXPECT_EQ(train(data, o).cuda_graph_ranks, 3);
  o.transport.cuda_graphs = CudaGraphs::off;
  EXPECT_EQ(train(data, o).cuda_graph_ranks, 0);
  o.transport.cuda_graphs = CudaGraphs::automatic;
  EXPECT_EQ(train(data, o).cuda_graph_ranks, 3);
  o.transport.device = DeviceKind::cpu;
  EXPECT_EQ(train(data, o).cuda_graph_ranks, 0);
}

TEST_F(CudaGraphEpochs, EachRankDecidesByItsOwnPart) {
  TrainOptions o = options(2, 1);
  o.transport.cuda_graphs = CudaGraphs::automatic;
  o.model.layers = 2;
  o.model.hidden = (8 << 20) / 4 / 40 / 16 * 16;  // Rows of whole cache lines: 40 fit, 41 do not.
  EXPECT_EQ(train(test::make_small_dataset(81, 12, 4, 5), o).cuda_graph_ranks, 1);
}

}  // namespace
}  // namespace heliograph
