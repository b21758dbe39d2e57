#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "heliograph/io.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "support/steps.hpp"

// Contract 1 (docs/architecture.md) without --reproducible: single steps from the same weights
// agree to 1e-5.

namespace heliograph {
namespace {

constexpr int kEpochs = 50;

TrainOptions options_for(ModelKind kind, int ranks, bool has_split) {
  TrainOptions o;
  o.model.kind = kind;
  o.model.layers = 3;
  o.model.hidden = 32;
  o.model.dropout = 0.3F;
  o.epochs = kEpochs;
  if (!has_split) o.split = RandomSplit();
  o.partition.parts = ranks;
  return o;
}

void expect_steps_agree(const Dataset& data, ModelKind kind) {
  const bool has_split = !data.splits.empty();
  const auto expected = test::run_steps(data, options_for(kind, 1, has_split), {}, nullptr);
  for (const int ranks : {2, 4, 7}) {
    SCOPED_TRACE(ranks);
    test::expect_near(test::run_steps(data, options_for(kind, ranks, has_split), {}, &expected),
                      expected, 1e-5, 1e-5);
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
