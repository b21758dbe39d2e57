#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "comm/threads/transport.hpp"
#include "heliograph/io.hpp"
#include "support/distance.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "train/plan/dataset_plan.hpp"
#include "train/trainer.hpp"

// Contract 1 (docs/architecture.md) without --reproducible: single steps from the same weights
// agree to 1e-5.

namespace heliograph {
namespace {

constexpr int kEpochs = 50;

/// The weights before a step, and the loss and gradient that it computed.
struct Step {
  std::vector<float> weights;
  double loss = 0;
  std::vector<float> gradient;
};

TrainOptions options_for(ModelKind kind, int ranks, bool has_split) {
  TrainOptions o;
  o.model.kind = kind;
  o.model.layers = 3;
  o.model.hidden = 32;
  o.model.dropout = 0.3F;
  o.epochs = kEpochs;
  o.random_split = !has_split;
  o.partition.parts = ranks;
  return o;
}

/// Trains for kEpochs. If there are `given` steps, each step starts from the weights of its own
/// one.
std::vector<Step> run(const Dataset& data, const TrainOptions& options,
                      const std::vector<Step>* given) {
  std::vector<Step> steps;
  const DatasetPlan plan(data, options, {});
  run_ranks(plan.facts().ranks, {}, [&](Communicator& comm) {
    Trainer trainer(plan,
                    plan.load(comm.rank(), GraphScope::training, MemoryUse::features, nullptr),
                    comm, nullptr);
    const Parameters& parameters = trainer.model().parameters();
    const std::span<float> weights = parameters.flat_values();
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      if (given != nullptr) {
        const std::vector<float>& from = (*given)[static_cast<std::size_t>(epoch)].weights;
        std::copy(from.begin(), from.end(), weights.begin());
      }
      Step step;
      step.weights.assign(weights.begin(), weights.end());
      step.loss = trainer.run_epoch(epoch, [] { return RunRequests(); }).report.loss;
      const auto gradient = parameters.flat_gradients_f32();
      step.gradient.assign(gradient.begin(), gradient.end());
      if (comm.rank() == 0) steps.push_back(std::move(step));
    }
    trainer.finish();
  });
  return steps;
}

void expect_steps_agree(const Dataset& data, ModelKind kind) {
  const bool has_split = !data.splits.empty();
  const std::vector<Step> expected = run(data, options_for(kind, 1, has_split), nullptr);
  for (const int ranks : {2, 4, 7}) {
    const std::vector<Step> got = run(data, options_for(kind, ranks, has_split), &expected);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t e = 0; e < got.size(); ++e) {
      EXPECT_NEAR(got[e].loss / expected[e].loss, 1.0, 1e-5) << ranks << " ranks, epoch " << e;
      EXPECT_LT(test::relative_distance(got[e].gradient, expected[e].gradient), 1e-5)
          << ranks << " ranks, epoch " << e;
    }
  }
}

class SingleStep : public ::testing::TestWithParam<ModelKind> {};

TEST_P(SingleStep, AgreesOnASmallGraph) {
  expect_steps_agree(test::make_small_dataset(300, 40, 5, 3), GetParam());
}

TEST_P(SingleStep, AgreesOnCora) {
  const std::string file = HELIOGRAPH_SOURCE_DIR "/../shared/data/cora.npz";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "cora.npz is not there";
  expect_steps_agree(load_dataset(file), GetParam());
}

TEST_P(SingleStep, AgreesOnTolokers) {
  const std::string file = HELIOGRAPH_SOURCE_DIR "/../shared/data/tolokers.npz";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "tolokers.npz is not there";
  expect_steps_agree(load_dataset(file), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Models, SingleStep, ::testing::Values(ModelKind::gcn, ModelKind::sage),
                         [](const auto& tested) { return test::name_of(tested.param); });

}  // namespace
}  // namespace heliograph
