#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "heliograph/io.hpp"
#include "support/graphs.hpp"
#include "support/passes.hpp"
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

// Rounding depends on rows of z, but not on the vectors that make scores of them, so the loss is a
// smooth function of these at any bits.
TEST(AttentionStep, GradientsOfScoresAreThoseOfRoundedRows) {
  const Dataset data = test::make_small_dataset(120, 20, 5, 3);
  for (const ModelKind kind : {ModelKind::gat, ModelKind::gat_sep}) {
    TrainOptions o = options_for(kind, 3, false);
    o.model.layers = 1;
    o.model.precompute = false;  // Else the only layer exchanges nothing.
    o.model.dropout = 0;
    o.model.heads = 2;
    o.model.attention_dropout = 0.2F;
    o.model.negative_slope = 0.7F;  // The kink at 0, which differences may meet, is smaller.
    o.epochs = 1;
    o.exchange.bits_forward = Bits::one;
    o.exchange.bits_backward = Bits::fp32;
    std::vector<test::Step> at = test::run_steps(data, o, {}, nullptr);
    test::SingleRank rank(data, o.model);
    const Parameters& parameters = rank.model().parameters();
    int vectors = 0;
    std::int64_t first = 0;  // in Step::weights, which have no padding
    for (int i = 0; i < parameters.count(); ++i) {
      const GradientView shape = parameters.gradient(i);
      const std::int64_t size = shape.rows * shape.cols;
      const bool scores =
          parameters.name(i).ends_with("source") || parameters.name(i).ends_with("target");
      for (std::int64_t c = 0; scores && c < size; c += 3) {
        const auto weight = static_cast<std::size_t>(first + c);
        const auto loss_at = [&](double change) {
          std::vector<test::Step> moved{at};
          moved[0].weights[weight] += static_cast<float>(change);
          return test::run_steps(data, o, {}, &moved)[0].loss;
        };
        const double expected = at[0].gradient[static_cast<std::size_t>(parameters.offset(i) + c)];
        // The shorter step may miss a kink of LeakyReLU that the longer one meets.
        double slope = 0;
        for (const double step : {0.01, 0.002}) {
          const double s = (loss_at(step) - loss_at(-step)) / (2 * step);
          if (step == 0.01 || std::abs(s - expected) < std::abs(slope - expected)) slope = s;
        }
        EXPECT_NEAR(expected, slope, 5e-4 + 0.01 * std::abs(slope))
            << parameters.name(i) << ' ' << c;
        ++vectors;
      }
      first += size;
    }
    EXPECT_GT(vectors, 0);
  }
}

// Halo targets receive other rows than the source has, at 8 bits, and rows of t come back at 32.
// Where a feature is 1 everywhere, its rows of the gradients sum those of all sources and targets:
// the weights of a target sum to 1, and its scores' gradients to 0, if sources recompute the
// weights with the rows that were sent.
TEST(DynamicStep, SourcesRecomputeTheWeightsOfTheTargets) {
  Dataset data = test::make_small_dataset(120, 20, 5, 3);
  std::vector<float> features(data.features.dense.begin(), data.features.dense.end());
  for (std::size_t v = 0; v < 120; ++v) features[v * 20] = 1;
  data.features.dense = std::move(features);
  TrainOptions o = options_for(ModelKind::gatv2, 3, false);
  o.model.layers = 1;
  o.model.precompute = false;  // Else the only layer exchanges nothing.
  o.model.dropout = 0;
  o.model.heads = 2;
  o.epochs = 1;
  o.exchange.bits_forward = Bits::eight;
  const test::Step step = test::run_steps(data, o, {}, nullptr)[0];
  test::SingleRank rank(data, o.model);
  const Parameters& parameters = rank.model().parameters();
  const auto gradient = [&](const std::string& name, std::int64_t c) {
    for (int i = 0; i < parameters.count(); ++i) {
      if (!parameters.name(i).ends_with(name)) continue;
      return static_cast<double>(step.gradient[static_cast<std::size_t>(parameters.offset(i) + c)]);
    }
    ADD_FAILURE() << name;
    return 0.0;
  };
  for (std::int64_t c = 0; c < 5; ++c) {
    for (const std::int64_t at : {c, 5 + c}) {  // The logits are the mean of two heads.
      EXPECT_NEAR(gradient("source.weight", at) - gradient("target.weight", at),
                  gradient("bias", c) / 2, 1e-6);
    }
    EXPECT_GT(std::abs(gradient("target.weight", c)), 1e-4);
  }
}

// Along a random direction of each parameter, the loss of three ranks changes as its gradient says.
TEST(DynamicStep, GradientsOverRanksAreDifferencesOfTheLoss) {
  for (const bool directed : {false, true}) {
    for (const bool fetches : {false, true}) {
      const Dataset data = test::make_small_dataset(120, 20, 5, 3, false, false, directed);
      TrainOptions o = options_for(ModelKind::gatv2, 3, false);
      o.model.layers = 2;
      o.model.precompute = fetches;
      o.model.dropout = 0;
      o.model.attention_dropout = 0.2F;
      o.model.negative_slope = 0.7F;  // The kink at 0, which differences may meet, is smaller.
      o.model.activation = ActivationFunction::gelu;
      o.epochs = 1;
      const std::vector<test::Step> at = test::run_steps(data, o, {}, nullptr);
      test::SingleRank rank(data, o.model);
      const Parameters& parameters = rank.model().parameters();
      std::mt19937 random(3);
      std::normal_distribution<double> normal;
      std::size_t first = 0;  // in Step::weights, which have no padding
      for (int i = 0; i < parameters.count(); ++i) {
        const GradientView shape = parameters.gradient(i);
        const auto size = static_cast<std::size_t>(shape.rows * shape.cols);
        const float* const g = at[0].gradient.data() + parameters.offset(i);
        std::vector<double> direction(size);
        double length = 0, slope = 0, norm = 0;
        for (double& d : direction) {
          d = normal(random);
          length += d * d;
        }
        for (std::size_t c = 0; c < size; ++c) {
          direction[c] /= std::sqrt(length);
          slope += direction[c] * static_cast<double>(g[c]);
          norm += static_cast<double>(g[c]) * static_cast<double>(g[c]);
        }
        const auto loss_at = [&](double t) {
          std::vector<test::Step> moved{at};
          for (std::size_t c = 0; c < size; ++c) {
            moved[0].weights[first + c] += static_cast<float>(t * direction[c]);
          }
          return test::run_steps(data, o, {}, &moved)[0].loss;
        };
        double difference = 0;
        for (const double step : {0.02, 0.005}) {
          const double d = (loss_at(step) - loss_at(-step)) / (2 * step);
          if (step == 0.02 || std::abs(d - slope) < std::abs(difference - slope)) difference = d;
        }
        EXPECT_NEAR(difference, slope, 0.01 * std::sqrt(norm) + 5e-5)
            << parameters.name(i) << ", directed " << directed << ", fetches " << fetches;
        EXPECT_GT(norm, 0) << parameters.name(i);
        first += size;
      }
    }
  }
}

class LateStep : public ::testing::TestWithParam<ModelKind> {};

// With the same weights in every epoch, rows and gradients of earlier epochs are those of this one.
TEST_P(LateStep, IsThatOfNowOnceWeightsRest) {
  const Dataset data = test::make_small_dataset(150, 20, 5, 3);
  TrainOptions o = options_for(GetParam(), 3, false);
  o.model.layers = 4;
  o.model.dropout = 0;
  o.epochs = 24;  // Rows pass at most 10 hops forward and back.
  std::vector<test::Step> given = test::run_steps(data, o, {}, nullptr);
  std::ranges::fill(given, test::Step{given[3]});
  const std::vector<test::Step> now = test::run_steps(data, o, {}, &given);
  o.exchange.staleness = 1;
  o.exchange.stale_sites = "all";
  const std::vector<test::Step> late = test::run_steps(data, o, {}, &given);
  test::expect_near({late.back()}, {now.back()}, 1e-6, 1e-5);
}

// The lowest backward exchange reaches the first layer's weights alone, so the first late epoch
// differs there and nowhere else.
TEST(LateSites, TheLowestBackwardReachesTheLowestWeightsAlone) {
  const Dataset data = test::make_small_dataset(150, 20, 5, 3);
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::sage}) {
    SCOPED_TRACE(test::name_of(kind));
    TrainOptions o = options_for(kind, 3, false);
    o.model.layers = 3;
    o.epochs = 2;
    const std::vector<test::Step> now = test::run_steps(data, o, {}, nullptr);
    o.exchange.staleness = 1;
    o.exchange.stale_sites = "lowest-backward";
    const std::vector<test::Step> late = test::run_steps(data, o, {}, nullptr);
    EXPECT_EQ(late[0].gradient, now[0].gradient);
    EXPECT_EQ(late[1].loss, now[1].loss);
    const TrainResult r = train(data, o);
    std::size_t at = 0;
    for (const Tensor& tensor : r.model.value().tensors) {
      const std::size_t size = tensor.values.size();
      const auto same =
          std::equal(&late[1].gradient[at], &late[1].gradient[at] + size, &now[1].gradient[at]);
      EXPECT_EQ(same, !tensor.name.starts_with("layers.0.")) << tensor.name;
      at += size;
    }
    EXPECT_LT(now[1].gradient.size() - at, 16U) << "but for padding, these are all";
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LateStep, ::testing::ValuesIn(test::all_models()),
                         [](const auto& tested) { return test::name_of(tested.param); });

TEST(AttentionStep, TheFirstLayerExchangesOnlyWhatItCannotFetch) {
  const Dataset data = test::make_small_dataset(150, 20, 5, 3);
  const auto forward_bytes = [&](auto change) {
    TrainOptions o = options_for(ModelKind::gat, 3, false);
    o.model.layers = 1;
    o.epochs = 1;
    change(o.model);
    return train(data, o).bytes_per_epoch.halo_forward;
  };
  EXPECT_EQ(forward_bytes([](ModelOptions&) {}), 0);
  EXPECT_GT(forward_bytes([](ModelOptions& m) { m.precompute = false; }), 0);
  EXPECT_GT(forward_bytes([](ModelOptions& m) { m.input_linear = m.output_linear = true; }), 0);
}

// A rank that multiplies the features of its halo computes what the owners would send.
TEST(AttentionStep, FetchedFeaturesChangeNoNumber) {
  for (const bool directed : {false, true}) {
    for (const bool sparse : {false, true}) {
      const Dataset data = test::make_small_dataset(150, 20, 5, 3, false, sparse, directed);
      for (const ModelKind kind : {ModelKind::gat, ModelKind::gat_sep, ModelKind::gatv2}) {
        TrainOptions o = options_for(kind, 1, false);
        o.model.heads = 4;
        o.model.attention_dropout = 0.2F;
        o.epochs = 5;
        o.model.precompute = false;
        const std::vector<test::Step> expected = test::run_steps(data, o, {}, nullptr);
        for (const int ranks : {1, 3}) {
          for (const bool fetches : {false, true}) {
            SCOPED_TRACE(fmt::format("{} ranks, sparse {}, directed {}", ranks, sparse, directed));
            o.partition.parts = ranks;
            o.model.precompute = fetches;
            test::expect_near(test::run_steps(data, o, {}, &expected), expected, 1e-5, 1e-5);
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SingleStep, ::testing::Values(ModelKind::gcn, ModelKind::sage),
                         [](const auto& tested) { return test::name_of(tested.param); });

}  // namespace
}  // namespace heliograph
