#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/copy_bytes.hpp"
#include "core/kernels.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "support/steps.hpp"

// Every single step of ranks on a CUDA device is that of ranks on the CPU from the same weights.

namespace heliograph {
namespace {

struct Case {
  std::string name;
  ModelKind kind = ModelKind::gcn;
  bool multilabel = false, sparse = false, directed = false;
  void (*change)(TrainOptions&) = [](TrainOptions&) {};
  double loss_bound = 1e-5;  ///< Relative.
  bool numbers = false;      ///< One number a node instead of classes.
  bool weighted = false;
  int nodes = 80;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

TrainOptions options_for(const Case& c, int ranks) {
  TrainOptions o = test::small_options(ranks, 4);
  o.model.kind = c.kind;
  o.model.layers = 3;
  o.model.dropout = 0.3F;
  c.change(o);
  return o;
}

class CudaTraining : public ::testing::TestWithParam<Case> {};

TEST_P(CudaTraining, EveryStepIsTheCpus) {
  if (cuda_devices() == 0) GTEST_SKIP() << "no CUDA device";
  const Case& c = GetParam();
  Dataset data = test::make_small_dataset(c.nodes, 12, 4, 3, c.multilabel, c.sparse, c.directed);
  if (c.numbers) data = test::with_numbers(std::move(data));
  if (c.weighted) data = test::with_weights(std::move(data));
  for (const int ranks : {1, 2, 4}) {
    // Rounding draws are keyed by node, so that at any bits the two differ by rounding alone.
    TrainOptions options = options_for(c, ranks);
    options.transport.device = DeviceKind::cpu;
    const auto expected = test::run_steps(data, options, {}, nullptr);
    options.transport.device = DeviceKind::cuda;
    for (const bool staged : {false, true}) {
      if (staged && ranks != 2) continue;
      SCOPED_TRACE(::testing::Message() << ranks << " ranks, staged " << staged);
      ThreadTransportOptions transport;
      transport.copy = staged ? copy_on_host : copy_by_cuda;
      test::expect_near(test::run_steps(data, options, transport, &expected), expected,
                        c.loss_bound, 2e-4);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(KeptColumns, CudaTraining,
                         ::testing::Values(Case{"Covers", ModelKind::sage, false, false, false,
                                                [](TrainOptions& o) {
                                                  o.exchange.rows = ExchangedRows::cover;
                                                  o.exchange.kept_columns = true;
                                                  o.exchange.bits_forward =
                                                      o.exchange.bits_backward = Bits::two;
                                                }},
                                           Case{"AutoBits", ModelKind::sage, false, false, true,
                                                [](TrainOptions& o) {
                                                  o.exchange.rows = ExchangedRows::cover;
                                                  o.exchange.bits_forward =
                                                      o.exchange.bits_backward = Bits::one;
                                                  o.exchange.auto_bits = "auto:2";
                                                  o.exchange.staleness = 1;
                                                }}),
                         [](const auto& p) { return p.param.name; });

// Two ranks have two blocks of at least kRowTile rows, and four have one.
INSTANTIATE_TEST_SUITE_P(InBlocks, CudaTraining,
                         ::testing::Values(Case{"Gcn", ModelKind::gcn, false, false, false,
                                                [](TrainOptions& o) {
                                                  o.transport.row_blocks = 3;
                                                  o.exchange.rows = ExchangedRows::cover;
                                                  o.exchange.kept_columns = true;
                                                  o.exchange.bits_forward =
                                                      o.exchange.bits_backward = Bits::two;
                                                },
                                                1e-5, false, false, 640},
                                           Case{"Gat", ModelKind::gat, false, false, true,
                                                [](TrainOptions& o) {
                                                  o.transport.row_blocks = 3;
                                                  o.model.layers = 2;
                                                  o.exchange.bits_forward = Bits::one;
                                                  o.exchange.bits_backward = Bits::four;
                                                  o.exchange.staleness = 1;
                                                },
                                                1e-5, false, false, 640},
                                           Case{"Gatv2", ModelKind::gatv2, false, false, false,
                                                [](TrainOptions& o) { o.transport.row_blocks = 3; },
                                                1e-5, false, false, 640}),
                         [](const auto& p) { return p.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Settings, CudaTraining,
    ::testing::Values(Case{"Gcn"}, Case{"Sage", ModelKind::sage},
                      Case{"MultiLabel", ModelKind::gcn, true},
                      Case{"SparseFeatures", ModelKind::gcn, false, true},
                      Case{"SparseSage", ModelKind::sage, false, true},
                      Case{"Directed", ModelKind::gcn, false, false, true},
                      Case{"Covers", ModelKind::sage, false, false, true,
                           [](TrainOptions& o) {
                             o.exchange.rows = ExchangedRows::cover;
                             o.exchange.bits_forward = Bits::one;
                             o.exchange.staleness = 1;
                           }},
                      Case{"WithoutPrecompute", ModelKind::sage, false, false, false,
                           [](TrainOptions& o) { o.model.precompute = false; }},
                      Case{"AggregateFirst", ModelKind::gcn, false, false, false,
                           [](TrainOptions& o) {
                             o.model.transform_first = false;
                             o.model.precompute = false;
                           }},
                      Case{"AggregateFirstSage", ModelKind::sage, false, false, false,
                           [](TrainOptions& o) { o.model.transform_first = false; }},
                      Case{"OneLayerSage", ModelKind::sage, false, false, false,
                           [](TrainOptions& o) { o.model.layers = 1; }},
                      Case{"ResidualWithoutNorm", ModelKind::gcn, false, false, false,
                           [](TrainOptions& o) {
                             o.model.residual = Residual::identity;
                             o.model.norm = NormLayer::none;
                           }},
                      Case{"OneBit", ModelKind::gcn, false, false, false,
                           [](TrainOptions& o) {
                             o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
                           }},
                      Case{"FourBitsStale", ModelKind::sage, false, false, false,
                           [](TrainOptions& o) {
                             o.exchange.bits_forward = Bits::four;
                             o.exchange.bits_backward = Bits::bf16;
                             o.exchange.staleness = 2;
                           }},
                      Case{"Regression", ModelKind::sage, false, false, false, [](TrainOptions&) {},
                           1e-5, true},
                      Case{"Weighted", ModelKind::gcn, false, false, false,
                           [](TrainOptions& o) {
                             o.model.precompute = false;
                             o.exchange.bits_forward = Bits::two;
                             o.exchange.bits_backward = Bits::eight;
                           },
                           1e-5, false, true},
                      Case{"WeightedDirectedSage", ModelKind::sage, false, true, true,
                           [](TrainOptions&) {}, 1e-5, false, true},
                      Case{"Recipe", ModelKind::gcn, false, false, false,
                           [](TrainOptions& o) {
                             o.optimizer.kind = OptimizerKind::adamw;
                             o.optimizer.weight_decay = 0.1F;
                             o.loss = {0.1F, ClassWeights::balanced};
                           }},
                      Case{"Bf16Rows", ModelKind::gcn, false, false, false,
                           [](TrainOptions& o) { o.model.aggregate_storage = RowStorage::bf16; },
                           1e-4},  // A sum that differs in its last bit may round to the next bf16.
                      Case{"Inductive", ModelKind::sage, false, false, false,
                           [](TrainOptions& o) { o.inductive = true; }},
                      Case{"GinBatchNorm", ModelKind::gin, false, false, false,
                           [](TrainOptions& o) {
                             o.model.norm = NormLayer::batch;
                             o.model.eps_learned = true;
                           }},
                      Case{"SageBatchNormInductive", ModelKind::sage, false, false, false,
                           [](TrainOptions& o) {
                             o.model.norm = NormLayer::batch;
                             o.inductive = true;
                           }},
                      Case{"Appnp", ModelKind::appnp},
                      Case{"DagnnSparse", ModelKind::dagnn, false, true},
                      Case{"JknetMaximum", ModelKind::jknet, false, false, false,
                           [](TrainOptions& o) { o.model.jk = JumpingKnowledge::max; }},
                      Case{"Gcnii", ModelKind::gcnii},
                      Case{"Gat", ModelKind::gat},
                      Case{"GatSepFourBitsStale", ModelKind::gat_sep, false, false, true,
                           [](TrainOptions& o) {
                             o.model.layers = 2;
                             o.model.attention_dropout = 0.3F;
                             o.model.concat_heads = false;
                             o.model.heads = 3;
                             o.exchange.bits_forward = Bits::four;
                             o.exchange.bits_backward = Bits::bf16;
                             o.exchange.staleness = 1;
                           }},
                      Case{"Gatv2", ModelKind::gatv2},
                      Case{"Gatv2EightBitsStale", ModelKind::gatv2, false, false, true,
                           [](TrainOptions& o) {
                             o.model.layers = 2;
                             o.model.attention_dropout = 0.3F;
                             o.model.concat_heads = false;
                             o.model.heads = 3;
                             o.exchange.bits_forward = Bits::eight;
                             o.exchange.bits_backward = Bits::bf16;
                             o.exchange.staleness = 1;
                           }},
                      Case{"PreNorm", ModelKind::gcn, false, false, false,
                           [](TrainOptions& o) {
                             o.model.pre_norm = o.model.input_linear = o.model.output_linear = true;
                             o.model.residual = Residual::identity;
                             o.model.feed_forward = 2;
                           }}),
    [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace heliograph
