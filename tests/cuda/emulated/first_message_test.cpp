#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "emulation.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/train.hpp"
#include "nccl_run.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

// While a rank's messages wait for another rank, calls that may wait for devices could wait for
// each other forever. So nothing is allocated, freed or loaded from the first message of a run on.
// (The emulated NCCL also refuses each such call that meets a message in flight:
// NcclTest::TearDown.)

namespace heliograph {
namespace {

/// How often each function was called that may wait for devices, but for making graphs.
std::map<std::string, std::int64_t> memory_calls() {
  std::map<std::string, std::int64_t> all;
  for (const char* name :
       {"cudaMalloc", "cudaFree", "cudaMallocAsync", "cudaFreeAsync", "cudaMallocHost",
        "cudaFreeHost", "cudaMemPoolTrimTo", "cudaMemPoolSetAccess", "cublasCreate",
        "cublasDestroy", "ncclMemAlloc", "ncclCommRegister", "cublasLtMatmulDescCreate"}) {
    all[name] = cuda_emulation::calls(name);
  }
  return all;
}

struct RunCase {
  std::string name;
  void (*change)(TrainOptions&);
};

void PrintTo(const RunCase& c, std::ostream* out) { *out << c.name; }

class FirstMessage : public test::NcclTest {
 protected:
  void SetUp() override {
    NcclTest::SetUp();
    nccl_emulation::slow_down(1);
  }
  static TrainOptions options() {
    TrainOptions o = test::small_options(3, 6);
    o.model.layers = 3;
    o.model.dropout = 0.3F;
    o.transport.kind = TransportKind::nccl;
    o.transport.device = DeviceKind::cuda;
    o.transport.cuda_graphs = CudaGraphs::off;
    o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
    o.keep_embeddings = true;
    o.eval_every = 2;
    return o;
  }

  const Dataset data = test::make_small_dataset(80, 12, 4, 5);
};

class FirstMessageOfRuns : public FirstMessage, public ::testing::WithParamInterface<RunCase> {};

TEST_P(FirstMessageOfRuns, IsFollowedByNothingThatMayWaitForDevices) {
  TrainOptions o = options();
  GetParam().change(o);
  std::map<std::string, std::int64_t> before;
  TrainCallbacks callbacks;
  callbacks.on_epoch = [&](const EpochReport& report) {
    if (report.epoch == 0) before = memory_calls();
    EXPECT_EQ(memory_calls(), before) << "epoch " << report.epoch;
    return EpochAction::proceed;
  };
  const TrainResult nccl = train(data, o, callbacks);
  // The rehearsal leaves no trace.
  o.transport.kind = TransportKind::threads;
  o.transport.nccl_register = false;
  const TrainResult threads = train(data, o);
  ASSERT_EQ(nccl.epochs.size(), threads.epochs.size());
  for (std::size_t e = 0; e < threads.epochs.size(); ++e) {
    EXPECT_EQ(nccl.epochs[e].loss, threads.epochs[e].loss) << e;
    EXPECT_EQ(nccl.epochs[e].bytes.total(), threads.epochs[e].bytes.total()) << e;
    EXPECT_EQ(nccl.epochs[e].test_metric, threads.epochs[e].test_metric) << e;
  }
  EXPECT_EQ(nccl.predictions, threads.predictions);
  EXPECT_EQ(nccl.embeddings, threads.embeddings);
  // Ranks 1 and 2 tell where they compute, and get NCCL's ids: for halos, and for weights in fp32.
  const int ids = o.exchange.gradient_bits == Bits::fp32 ? 2 : 1;
  EXPECT_EQ(nccl.evaluation_bytes - threads.evaluation_bytes, 2 * (8 + 80) + 2 * 128 * ids);
}

INSTANTIATE_TEST_SUITE_P(
    Settings, FirstMessageOfRuns,
    ::testing::Values(RunCase{"Gcn", [](TrainOptions& o) { o.model.kind = ModelKind::gcn; }},
                      RunCase{"Sage", [](TrainOptions& o) { o.model.kind = ModelKind::sage; }},
                      RunCase{"GinBatchNorm",
                              [](TrainOptions& o) {
                                o.model.kind = ModelKind::gin;
                                o.model.norm = NormLayer::batch;
                              }},
                      RunCase{"GatStale",
                              [](TrainOptions& o) {
                                o.model.kind = ModelKind::gat;
                                o.exchange.staleness = 1;
                              }},
                      RunCase{"GcnStale",
                              [](TrainOptions& o) {
                                o.model.kind = ModelKind::gcn;
                                o.exchange.staleness = 2;
                                o.exchange.sync_every = 4;
                              }},
                      RunCase{"KeptColumnsOfCovers",
                              [](TrainOptions& o) {
                                o.exchange.rows = ExchangedRows::cover;
                                o.exchange.kept_columns = true;
                                o.exchange.bits_forward = o.exchange.bits_backward = Bits::two;
                              }},
                      RunCase{"KeptColumnsOfCoversStale",
                              [](TrainOptions& o) {
                                o.exchange.rows = ExchangedRows::cover;
                                o.exchange.kept_columns = true;
                                o.exchange.staleness = 2;
                              }},
                      RunCase{"AutoBits",
                              [](TrainOptions& o) {
                                o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
                                o.exchange.auto_bits = "auto:2";
                              }},
                      RunCase{"AutoBitsStale",
                              [](TrainOptions& o) {
                                o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
                                o.exchange.auto_bits = "auto:2";
                                o.exchange.staleness = 1;
                                o.epochs = 27;
                              }},
                      RunCase{"GatSep", [](TrainOptions& o) { o.model.kind = ModelKind::gat_sep; }},
                      RunCase{"Gatv2Stale",
                              [](TrainOptions& o) {
                                o.model.kind = ModelKind::gatv2;
                                o.exchange.bits_forward = o.exchange.bits_backward = Bits::eight;
                                o.exchange.staleness = 1;
                              }},
                      RunCase{"Clipped", [](TrainOptions& o) { o.optimizer.clip_norm = 0.05F; }},
                      RunCase{"InductiveStale",
                              [](TrainOptions& o) {
                                o.model.kind = ModelKind::sage;
                                o.inductive = true;
                                o.exchange.staleness = 2;
                              }},
                      RunCase{"IntegerGradients",
                              [](TrainOptions& o) { o.exchange.gradient_bits = Bits::eight; }},
                      RunCase{"IntegerGradientsStale",
                              [](TrainOptions& o) {
                                o.exchange.gradient_bits = Bits::four;
                                o.exchange.staleness = 2;
                              }},
                      RunCase{"RegisteredStale",
                              [](TrainOptions& o) {
                                o.transport.nccl_register = true;
                                o.exchange.staleness = 2;
                              }},
                      RunCase{"GraphsStale",
                              [](TrainOptions& o) {
                                o.transport.cuda_graphs = CudaGraphs::on;
                                o.exchange.staleness = 2;
                              }},
                      RunCase{"Graphs",
                              [](TrainOptions& o) { o.transport.cuda_graphs = CudaGraphs::on; }}),
    [](const auto& p) { return p.param.name; });

// What a rank reads from its checkpoint is not what it rehearsed.
TEST_F(FirstMessage, AResumedRunIsTheRunThatWasNotStopped) {
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::gat}) {
    TrainOptions o = options();
    o.model.kind = kind;
    o.exchange.staleness = 2;
    const TrainResult whole = train(data, o);
    const test::TemporaryDirectory folder;
    o.checkpoint.folder = folder / "run";
    o.checkpoint.every = 1000;
    o.epochs = 3;
    train(data, o);
    o.epochs = 6;
    o.checkpoint.resume = newest_checkpoint(folder / "run");
    const TrainResult resumed = train(data, o);
    ASSERT_EQ(resumed.epochs.size(), whole.epochs.size());
    for (std::size_t e = 0; e < whole.epochs.size(); ++e) {
      EXPECT_EQ(resumed.epochs[e].loss, whole.epochs[e].loss) << e;
    }
    EXPECT_EQ(resumed.predictions, whole.predictions);
    EXPECT_EQ(resumed.evaluation_bytes, whole.evaluation_bytes);
  }
}

}  // namespace
}  // namespace heliograph
