#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "comm/threads/transport.hpp"
#include "core/copy_bytes.hpp"
#include "support/distance.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "train/checkpoint/trainer_state.hpp"
#include "train/plan/dataset_plan.hpp"

// Every single step of ranks on a CUDA device, from the same weights, against those on the CPU.

namespace heliograph {
namespace {

constexpr int kEpochs = 4;

/// Before each step the weights, and what the step made of them.
struct Step {
  std::vector<float> weights;
  double loss = 0;
  std::vector<float> gradient;
};

struct Case {
  std::string name;
  ModelKind kind = ModelKind::gcn;
  bool multilabel = false, sparse = false, directed = false;
  void (*change)(TrainOptions&) = [](TrainOptions&) {};
  double loss_bound = 1e-5;  ///< Relative.
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

TrainOptions options_for(const Case& c, int ranks) {
  TrainOptions o;
  o.model.kind = c.kind;
  o.model.layers = 3;
  o.model.hidden = 16;
  o.model.dropout = 0.3F;
  o.epochs = kEpochs;
  o.partition.parts = ranks;
  o.partition.partitioner = Partitioner::contiguous;
  c.change(o);
  return o;
}

/// `copy`: by copy_on_host messages are staged on the host.
std::vector<Step> run(const Dataset& data, TrainOptions options, DeviceKind device, CopyBytes copy,
                      const std::vector<Step>* given) {
  options.transport.device = device;
  std::vector<Step> steps;
  const DatasetPlan plan(data, options, {});
  ThreadTransportOptions transport;
  transport.copy = copy;
  run_ranks(plan.facts().ranks, transport, [&](Communicator& comm) {
    Trainer trainer(plan,
                    plan.load(comm.rank(), GraphScope::training, MemoryUse::features, nullptr),
                    comm, nullptr);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      Step step;
      std::size_t at = 0;
      HostWeights weights(trainer);
      for (const NamedTensor& tensor : weights.tensors()) {
        if (given != nullptr) {
          const std::vector<float>& from = (*given)[static_cast<std::size_t>(epoch)].weights;
          std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at), tensor.values.size(),
                      tensor.values.begin());
        }
        step.weights.insert(step.weights.end(), tensor.values.begin(), tensor.values.end());
        at += tensor.values.size();
      }
      weights.store();
      step.loss = trainer.run_epoch(epoch, [] { return RunRequests(); }).report.loss;
      const std::span<const float> gradient = trainer.gradients();
      step.gradient.assign(gradient.begin(), gradient.end());
      if (comm.rank() == 0) steps.push_back(std::move(step));
    }
    trainer.finish();
  });
  return steps;
}

class CudaTraining : public ::testing::TestWithParam<Case> {};

TEST_P(CudaTraining, EveryStepIsTheCpus) {
  if (cuda_devices() == 0) GTEST_SKIP() << "no CUDA device";
  const Case& c = GetParam();
  const Dataset data = test::make_small_dataset(80, 12, 4, 3, c.multilabel, c.sparse, c.directed);
  for (const int ranks : {1, 2, 4}) {
    // Rounding draws are keyed by node, so that at any bits the two differ by rounding alone.
    const TrainOptions options = options_for(c, ranks);
    const std::vector<Step> expected = run(data, options, DeviceKind::cpu, copy_on_host, nullptr);
    for (const CopyBytes copy : {copy_by_cuda, copy_on_host}) {
      if (copy == copy_on_host && ranks != 2) continue;
      const std::vector<Step> got = run(data, options, DeviceKind::cuda, copy, &expected);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t e = 0; e < got.size(); ++e) {
        EXPECT_NEAR(got[e].loss / expected[e].loss, 1.0, c.loss_bound)
            << ranks << " ranks, epoch " << e << ", staged " << (copy == copy_on_host);
        EXPECT_LT(test::relative_distance(got[e].gradient, expected[e].gradient), 2e-4)
            << ranks << " ranks, epoch " << e << ", staged " << (copy == copy_on_host);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, CudaTraining,
    ::testing::Values(
        Case{"Gcn"}, Case{"Sage", ModelKind::sage}, Case{"MultiLabel", ModelKind::gcn, true},
        Case{"SparseFeatures", ModelKind::gcn, false, true},
        Case{"SparseSage", ModelKind::sage, false, true},
        Case{"Directed", ModelKind::gcn, false, false, true},
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
               o.model.residual = true;
               o.model.norm = NormLayer::none;
             }},
        Case{"OneBit", ModelKind::gcn, false, false, false,
             [](TrainOptions& o) { o.exchange.bits_forward = o.exchange.bits_backward = 1; }},
        Case{"FourBitsStale", ModelKind::sage, false, false, false,
             [](TrainOptions& o) {
               o.exchange.bits_forward = 4;
               o.exchange.bits_backward = 16;
               o.exchange.staleness = 2;
             }},
        Case{"Bf16Rows", ModelKind::gcn, false, false, false,
             [](TrainOptions& o) { o.model.aggregate_storage = RowStorage::bf16; },
             1e-4},  // A sum that differs in its last bit may round to the next bf16.
        Case{"Inductive", ModelKind::sage, false, false, false,
             [](TrainOptions& o) { o.inductive = true; }}),
    [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace heliograph
