#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "support/graphs.hpp"
#include "support/passes.hpp"
#include "support/runs.hpp"

namespace heliograph {
namespace {

struct Case {
  std::string name;
  ModelOptions options;
  bool multilabel = false;
  bool sparse = false;
  bool directed = false;
  bool weighted = false;
};

Dataset data_of(const Case& c, int cols) {
  Dataset data = test::make_small_dataset(60, cols, 5, 7, c.multilabel, c.sparse, c.directed);
  return c.weighted ? test::with_weights(std::move(data)) : data;
}

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

Case make(std::string name, ModelKind kind, int layers, int hidden, bool precompute,
          bool transform_first, NormLayer norm, bool residual, float dropout) {
  Case c;
  c.name = std::move(name);
  c.options.kind = kind;
  c.options.layers = layers;
  c.options.hidden = hidden;
  c.options.precompute = precompute;
  c.options.transform_first = transform_first;
  c.options.norm = norm;
  c.options.residual = residual ? Residual::identity : Residual::none;
  c.options.dropout = dropout;
  return c;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::sage}) {
    const std::string m = test::name_of(kind);
    all.push_back(make(m + "_one_layer", kind, 1, 9, false, false, NormLayer::none, false, 0));
    all.push_back(make(m + "_plain", kind, 3, 9, false, false, NormLayer::none, false, 0));
    all.push_back(make(m + "_norm", kind, 3, 9, false, false, NormLayer::layer, false, 0));
    all.push_back(
        make(m + "_transform_first", kind, 3, 9, false, true, NormLayer::layer, false, 0));
    all.push_back(make(m + "_precompute", kind, 3, 9, true, true, NormLayer::layer, false, 0));
    all.push_back(make(m + "_residual", kind, 4, 17, true, true, NormLayer::layer, true, 0));
    all.push_back(make(m + "_dropout", kind, 3, 33, true, true, NormLayer::layer, true, 0.4F));
    Case multilabel = make(m + "_multilabel", kind, 2, 12, true, true, NormLayer::layer, false, 0);
    multilabel.multilabel = true;
    all.push_back(multilabel);
    Case sparse = make(m + "_sparse", kind, 2, 12, true, true, NormLayer::layer, false, 0.3F);
    sparse.sparse = true;
    all.push_back(sparse);
    Case sparse_late =
        make(m + "_sparse_no_precompute", kind, 2, 12, false, true, NormLayer::layer, false, 0.3F);
    sparse_late.sparse = true;
    all.push_back(sparse_late);
    Case directed = make(m + "_directed", kind, 3, 9, false, true, NormLayer::layer, false, 0);
    directed.directed = true;
    all.push_back(directed);
  }
  const auto add = [&](std::string name, ModelKind kind, auto change) -> Case& {
    Case c = make(std::move(name), kind, 3, 9, true, true, NormLayer::layer, false, 0.3F);
    change(c.options);
    all.push_back(std::move(c));
    return all.back();
  };
  const auto nothing = [](ModelOptions&) {};
  for (const ModelKind kind :
       {ModelKind::gin, ModelKind::appnp, ModelKind::dagnn, ModelKind::jknet, ModelKind::gcnii}) {
    const std::string m = test::name_of(kind);
    add(m, kind, nothing);
    add(m + "_sparse", kind, nothing).sparse = true;
    add(m + "_directed", kind, nothing).directed = true;
    add(m + "_batch_norm", kind, [](ModelOptions& o) { o.norm = NormLayer::batch; });
    add(m + "_residual", kind, [](ModelOptions& o) { o.residual = Residual::identity; });
  }
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::sage, ModelKind::gin}) {
    const std::string m = test::name_of(kind);
    add(m + "_gelu", kind, [](ModelOptions& o) { o.activation = ActivationFunction::gelu; });
    add(m + "_elu", kind, [](ModelOptions& o) { o.activation = ActivationFunction::elu; });
    for (const NormLayer norm : {NormLayer::layer, NormLayer::batch}) {
      add(m + (norm == NormLayer::batch ? "_pre_batch_norm" : "_pre_layer_norm"), kind,
          [&](ModelOptions& o) {
            o.norm = norm;
            o.pre_norm = o.input_linear = o.output_linear = true;
            o.residual = Residual::identity;
            if (o.kind != ModelKind::gin) o.feed_forward = 2;
          });
    }
    for (const JumpingKnowledge jk :
         {JumpingKnowledge::concat, JumpingKnowledge::max, JumpingKnowledge::sum}) {
      add(fmt::format("{}_joined_{}", m, static_cast<int>(jk)), kind,
          [&](ModelOptions& o) { o.jk = jk; });
    }
  }
  for (const bool transforms : {false, true}) {
    add(transforms ? "gin_epsilon_transform_first" : "gin_epsilon", ModelKind::gin,
        [&](ModelOptions& o) {
          o.eps_learned = true;
          o.transform_first = transforms;
        });
  }
  add("gcn_linear_residual", ModelKind::gcn, [](ModelOptions& o) {
    o.residual = Residual::linear;
    o.norm = NormLayer::batch;
  });
  add("gcn_linear_residual_no_precompute", ModelKind::gcn, [](ModelOptions& o) {
    o.residual = Residual::linear;
    o.precompute = false;
  }).directed = true;
  for (const ModelKind kind :
       {ModelKind::gcn, ModelKind::sage, ModelKind::gin, ModelKind::appnp, ModelKind::gcnii}) {
    Case& weighted = add(test::name_of(kind) + "_weighted", kind,
                         [](ModelOptions& o) { o.precompute = o.kind == ModelKind::sage; });
    weighted.weighted = weighted.directed = true;
    weighted.sparse = kind == ModelKind::sage;
  }
  const auto attention = [&](const std::string& name, ModelKind kind, auto change) -> Case& {
    return add(test::name_of(kind) + name, kind, [&](ModelOptions& o) {
      o.hidden = 12;
      o.heads = 3;
      o.attention_dropout = 0.3F;
      change(o);
    });
  };
  for (const ModelKind kind : {ModelKind::gat, ModelKind::gat_sep, ModelKind::gatv2}) {
    attention("", kind, nothing);
    attention("_sparse", kind, nothing).sparse = true;
    attention("_directed", kind, [](ModelOptions& o) { o.hidden = 18; }).directed = true;
    attention("_batch_norm", kind, [](ModelOptions& o) { o.norm = NormLayer::batch; });
    attention("_averaged", kind, [](ModelOptions& o) { o.concat_heads = false; });
    attention("_residual", kind, [](ModelOptions& o) { o.residual = Residual::identity; });
    attention("_pre_norm", kind, [](ModelOptions& o) {
      o.pre_norm = o.input_linear = o.output_linear = true;
      o.residual = Residual::identity;
      o.feed_forward = 2;
    });
  }
  for (const ModelKind kind : {ModelKind::gat, ModelKind::gatv2}) {
    attention("_one_output_head", kind, [](ModelOptions& o) { o.output_heads = 1; });
    attention("_linear_residual", kind, [](ModelOptions& o) {
      o.residual = Residual::linear;
      o.negative_slope = 0;
    });
    attention("_linear_residual_feed_forward", kind, [](ModelOptions& o) {
      o.residual = Residual::linear;
      o.feed_forward = 2;
    });
    attention("_wide", kind, [](ModelOptions& o) { o.hidden = 48; });
  }
  add("gcn_input_dropout", ModelKind::gcn, [](ModelOptions& o) { o.input_dropout = 0.0F; });
  return all;
}

class Gradient : public ::testing::TestWithParam<Case> {};

// Along a random direction of each parameter, the loss must change as its gradient says. Weights
// are fp32, so differences carry about 1e-7 / step of noise; ReLU's kinks add a little.
TEST_P(Gradient, MatchesFiniteDifferences) {
  const Case& c = GetParam();
  const Dataset data = data_of(c, 17);
  test::SingleRank rank(data, c.options);
  Parameters& parameters = rank.model().parameters();
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  // Without biases, a row in which every element was dropped is at a pole of LayerNorm.
  for (int i = 0; i < parameters.count(); ++i) {
    if (parameters.kind(i) != ParameterKind::bias) continue;
    const MatrixView bias = parameters.value(i);
    for (std::int64_t j = 0; j < bias.cols; ++j) {
      bias.data[j] = static_cast<float>(0.3 * normal(random));
    }
  }
  rank.loss_and_gradients();
  std::vector<std::vector<double>> gradients;
  for (int i = 0; i < parameters.count(); ++i) {
    const GradientView g = parameters.gradient(i);
    gradients.emplace_back(g.f64, g.f64 + g.rows * g.cols);
  }
  for (int i = 0; i < parameters.count(); ++i) {
    const MatrixView w = parameters.value(i);
    const auto count = static_cast<std::size_t>(w.rows * w.cols);
    const std::vector<float> kept(w.data, w.data + count);
    std::vector<double> direction(count);
    double length = 0;
    for (double& d : direction) {
      d = normal(random);
      length += d * d;
    }
    double norm = 0;
    double slope = 0;
    for (std::size_t j = 0; j < count; ++j) {
      direction[j] /= std::sqrt(length);
      slope += direction[j] * gradients[static_cast<std::size_t>(i)][j];
      norm += gradients[static_cast<std::size_t>(i)][j] * gradients[static_cast<std::size_t>(i)][j];
    }
    const auto loss_at = [&](double t) {
      for (std::size_t j = 0; j < count; ++j) {
        w.data[j] = static_cast<float>(kept[j] + t * direction[j]);
      }
      return rank.loss();
    };
    // Shorter steps may miss a kink that longer ones meet.
    double difference = 0;
    for (const double step : {4e-3, 1e-3, 2.5e-4}) {
      const double d = (loss_at(step) - loss_at(-step)) / (2 * step);
      if (step == 4e-3 || std::abs(d - slope) < std::abs(difference - slope)) difference = d;
    }
    std::copy(kept.begin(), kept.end(), w.data);
    EXPECT_NEAR(difference, slope, 0.02 * std::sqrt(norm) + 2e-5) << parameters.name(i);
    EXPECT_GT(norm, 0) << parameters.name(i) << " has no gradient";
  }
}

// A linear residual is a weight of its own, also inside a feed-forward block.
TEST(LinearResidual, AddsAWeightToEveryLayer) {
  const Dataset data = test::make_small_dataset(60, 17, 5, 7);
  for (const ModelKind kind :
       {ModelKind::gcn, ModelKind::jknet, ModelKind::gat, ModelKind::gatv2}) {
    for (const int feed_forward : {0, 2}) {
      ModelOptions o;
      o.kind = kind;
      o.hidden = 12;
      o.feed_forward = feed_forward;
      const int without = test::SingleRank(data, o).model().parameters().count();
      o.residual = Residual::linear;
      EXPECT_EQ(test::SingleRank(data, o).model().parameters().count(), without + o.layers)
          << test::name_of(kind) << ", " << feed_forward;
    }
  }
}

// A first layer that is hidden adds the features to its output, precomputed or not.
TEST(FirstLayer, AddsItsInputBeforeAnOutputMap) {
  const Dataset data = test::make_small_dataset(60, 17, 5, 7);
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::gin}) {
    ModelOptions o;
    o.kind = kind;
    o.layers = 1;
    o.hidden = 17;
    o.dropout = 0;
    o.output_linear = true;
    const double without = test::SingleRank(data, o).loss();
    o.residual = Residual::identity;
    const double precomputed = test::SingleRank(data, o).loss();
    o.precompute = false;
    EXPECT_NEAR(precomputed, test::SingleRank(data, o).loss(), 1e-6);
    EXPECT_GT(std::abs(precomputed - without), 1e-3);
  }
}

// Weights may change as soon as backward has released them.
TEST_P(Gradient, DoesNotDependOnReleasedWeights) {
  Case c = GetParam();
  c.options.hidden = 96;  // So that weights are announced in several ranges.
  const Dataset data = data_of(c, 300);
  test::SingleRank untouched(data, c.options, false), changed(data, c.options, false);
  untouched.loss_and_gradients();
  const std::span<float> weights = changed.model().parameters().flat_values();
  std::vector<std::pair<std::int64_t, std::int64_t>> complete;
  changed.loss_and_gradients(
      [&](std::int64_t begin, std::int64_t end) { complete.emplace_back(begin, end); },
      [&] {
        for (const auto& [begin, end] : complete) {
          std::fill(weights.begin() + begin, weights.begin() + end,
                    std::numeric_limits<float>::quiet_NaN());
        }
      });
  EXPECT_TRUE(std::ranges::equal(changed.model().parameters().flat_gradients_f32(),
                                 untouched.model().parameters().flat_gradients_f32()));
  const auto released =
      weights.first(static_cast<std::size_t>(changed.model().parameters().flat_size()));
  EXPECT_TRUE(std::ranges::all_of(released, [](float w) { return std::isnan(w); }));
}

// Each gradient is announced once, and has its final value then.
TEST_P(Gradient, IsAnnouncedOnceItIsWhole) {
  const Case& c = GetParam();
  const Dataset data = data_of(c, 300);
  for (const bool reproducible : {false, true}) {
    test::SingleRank rank(data, c.options, reproducible);
    const Parameters& parameters = rank.model().parameters();
    const auto value = [&](std::size_t i) {
      return reproducible ? parameters.flat_gradients_f64()[i]
                          : static_cast<double>(parameters.flat_gradients_f32()[i]);
    };
    const auto size = static_cast<std::size_t>(parameters.flat_size());
    std::vector<double> announced(size);
    std::vector<int> times(size, 0);
    std::vector<std::string> layers;
    rank.loss_and_gradients(
        [&](std::int64_t begin, std::int64_t end) {
          for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
            announced[i] = value(i);
            ++times[i];
          }
          int p = 0;
          while (parameters.offset(p + 1) <= begin) ++p;
          const std::string layer = parameters.name(p).substr(0, parameters.name(p).rfind('.'));
          if (layers.empty() || layers.back() != layer) layers.push_back(layer);
        },
        [] {});
    EXPECT_EQ(times, std::vector<int>(size, 1));
    const bool plain = c.options.kind == ModelKind::gcn || c.options.kind == ModelKind::sage;
    if (plain && !c.options.input_linear && c.options.jk == JumpingKnowledge::none) {
      ASSERT_EQ(layers.size(), static_cast<std::size_t>(c.options.layers));
      EXPECT_TRUE(std::is_sorted(layers.rbegin(), layers.rend()));
    }
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(announced[i], value(i)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Gradient, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace heliograph
