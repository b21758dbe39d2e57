#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heliograph/error.hpp"
#include "heliograph/partition.hpp"
#include "heliograph/shards.hpp"
#include "heliograph/train.hpp"
#include "layers/compose.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "train/metrics/scores.hpp"

// Runs that are small, degenerate or that fail.

namespace heliograph {
namespace {

using ::testing::HasSubstr;

TrainOptions four_epochs(int ranks) { return test::small_options(ranks, 4); }

void set_roles(Dataset& data, const std::function<Role(std::size_t, Role)>& role_of) {
  std::vector<Role> roles(data.splits[0].role.begin(), data.splits[0].role.end());
  for (std::size_t v = 0; v < roles.size(); ++v) roles[v] = role_of(v, roles[v]);
  data.splits[0].role = std::move(roles);
}

TEST(EdgeCases, OneFeatureColumnIsLearnedFrom) {
  const Dataset data = test::make_small_dataset(300, 1, 2, 8);
  TrainOptions o = four_epochs(2);
  o.epochs = 60;
  o.metric = Metric::accuracy;
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::sage}) {
    o.model.kind = kind;
    const TrainResult r = train(data, o);
    EXPECT_LT(r.epochs.back().loss, 0.9 * r.epochs.front().loss);
  }
}

// Features of 0 leave only the biases to be learned, which find the least loss without inputs.
TEST(EdgeCases, ALossThatNeedsNoFeaturesIsWarnedOf) {
  Dataset data = test::make_small_dataset(300, 4, 3, 8);
  data.features.dense = std::vector(data.features.dense.size(), 0.0F);
  std::vector<std::int32_t> classes(data.labels.class_of.size(), 0);
  for (std::size_t v = 0; v < classes.size(); v += 4) classes[v] = 1 + static_cast<int>(v) % 8 / 4;
  data.labels.class_of = std::move(classes);
  std::string warnings;
  TrainCallbacks callbacks;
  callbacks.log = [&](LogLevel level, std::string_view text) {
    if (level == LogLevel::warning) warnings.append(text).append("\n");
  };
  for (const ClassWeights weights : {ClassWeights::none, ClassWeights::balanced}) {
    for (const float smoothing : {0.0F, 0.2F}) {
      TrainOptions o = test::small_options(2, 300);
      o.model.kind = ModelKind::gcn;
      o.model.layers = 1;
      o.optimizer.lr = 0.05;
      o.loss = {smoothing, weights};
      warnings.clear();
      const double least = train(data, o, callbacks).epochs.back().loss;
      EXPECT_THAT(warnings, HasSubstr("after 30 epochs the training loss with dropout is "));
      EXPECT_THAT(warnings, HasSubstr(fmt::format("features and graph gives {:.4f}", least)));
    }
  }
  warnings.clear();
  train(test::make_small_dataset(300, 8, 3, 8), test::small_options(2, 40), callbacks);
  EXPECT_EQ(warnings, "");

  TrainOptions still = test::small_options(2, 20);
  still.optimizer.lr = 1e-9;
  train(test::with_numbers(test::make_small_dataset(300, 8, 3, 8)), still, callbacks);
  EXPECT_THAT(warnings,
              HasSubstr("features and graph gives 1.0000: a smaller dropout or a smaller lr or "
                        "fewer layers or normalize row may help"));
  still.model.kind = ModelKind::dagnn;
  train(test::make_small_dataset(300, 8, 3, 8), still, callbacks);
  EXPECT_THAT(warnings, HasSubstr("the training loss with dropout is "));
  EXPECT_THAT(warnings, HasSubstr("a smaller dropout or normalize row with a larger lr may help"));
}

TEST(EdgeCases, WithoutValidationNodesTheLastEvaluationCounts) {
  Dataset data = test::make_small_dataset(200, 8, 3, 8);
  set_roles(data, [](std::size_t, Role r) { return r == Role::validation ? Role::none : r; });
  TrainOptions o = four_epochs(2);
  const TrainResult r = train(data, o);
  EXPECT_TRUE(std::isnan(r.val_metric));
  EXPECT_FALSE(r.epochs[3].val_metric);
  EXPECT_EQ(r.best_epoch, 3);
  EXPECT_EQ(*r.epochs[3].test_metric, r.test_metric);
  EXPECT_EQ(r.predictions.size(), 200U);
}

TEST(EdgeCases, PatienceWithoutAValidationScoreIsRefused) {
  Dataset data = test::make_small_dataset(200, 8, 2, 8);
  TrainOptions o = four_epochs(2);
  o.patience = 3;
  // The area under the curve needs validation nodes of both classes.
  const auto& class_of = data.labels.class_of;
  set_roles(data, [&](std::size_t v, Role r) {
    return r == Role::validation && class_of[v] == 1 ? Role::none : r;
  });
  test::expect_error(ErrorCode::usage, "patience", [&] { train(data, o); });
  o.metric = Metric::accuracy;
  EXPECT_EQ(train(data, o).metric, Metric::accuracy);
  set_roles(data, [](std::size_t, Role r) { return r == Role::validation ? Role::none : r; });
  test::expect_error(ErrorCode::usage, "patience", [&] { train(data, o); });
}

TEST(EdgeCases, AStopBeforeTheFirstEvaluationLeavesScoresUnknown) {
  const Dataset data = test::make_small_dataset(200, 8, 3, 8);
  TrainOptions o = four_epochs(3);
  o.exchange.staleness = 2;
  const StopFlag stop = true;
  TrainCallbacks callbacks;
  callbacks.stop = &stop;
  const TrainResult r = train(data, o, callbacks);
  EXPECT_EQ(r.stop_reason, "interrupted");
  EXPECT_EQ(r.epochs.size(), 1U);
  EXPECT_EQ(r.best_epoch, -1);
  EXPECT_TRUE(std::isnan(r.val_metric));
  EXPECT_TRUE(std::isnan(r.test_metric));
  EXPECT_TRUE(r.predictions.empty());
}

TEST(EdgeCases, EvaluationComesAtTheLastEpochAtTheLatest) {
  const Dataset data = test::make_small_dataset(200, 8, 3, 8);
  TrainOptions o = four_epochs(2);
  o.eval_every = 100;
  const TrainResult r = train(data, o);
  EXPECT_EQ(r.best_epoch, 3);
  EXPECT_FALSE(r.epochs[2].val_metric);
  EXPECT_TRUE(r.epochs[3].val_metric);
}

TEST(EdgeCases, ARunThatNeverEvaluatesHasNoScores) {
  const Dataset data = test::make_small_dataset(200, 8, 3, 8);
  TrainOptions o = four_epochs(2);
  o.eval_every = 0;
  const TrainResult r = train(data, o);
  EXPECT_EQ(r.epochs.size(), 4U);
  EXPECT_EQ(r.best_epoch, -1);
  EXPECT_FALSE(r.epochs[3].val_metric);
  EXPECT_TRUE(r.predictions.empty());
  o.patience = 2;
  test::expect_error(ErrorCode::usage, "eval-every 0", [&] { train(data, o); });
}

// The only step overflows the weights after the loss, so that only evaluation can notice it.
TEST(EdgeCases, NonFiniteLogitsAreNeverScored) {
  for (const int ranks : {1, 3}) {
    for (const bool binary : {false, true}) {
      const Dataset data = test::make_small_dataset(200, 8, binary ? 2 : 4, 8);
      TrainOptions o = four_epochs(ranks);
      o.model.norm = NormLayer::none;
      o.optimizer.lr = 1e30F;
      o.epochs = 1;
      const std::string text = test::expect_error(
          ErrorCode::numeric, {"node", "epoch 0", "lower lr"}, [&] { train(data, o); });
      EXPECT_EQ(text.find("epoch"), text.rfind("epoch")) << text;
    }
  }
}

TEST(EdgeCases, ANumericFailureWithHalosInFlightKeepsItsCode) {
  const Dataset data = test::make_small_dataset(200, 8, 4, 8);
  TrainOptions o = four_epochs(3);
  o.model.layers = 3;
  o.model.norm = NormLayer::none;
  o.optimizer.lr = 1e30F;
  o.eval_every = 100;
  o.exchange.staleness = 2;
  for (const int bits : {1, 32}) {
    o.exchange.bits_forward = o.exchange.bits_backward = Bits{bits};
    test::expect_error(ErrorCode::numeric, "epoch", [&] { train(data, o); });
  }
}

constexpr ModelKind kAllModels[] = {
    ModelKind::gcn,   ModelKind::sage,  ModelKind::gin, ModelKind::appnp,   ModelKind::dagnn,
    ModelKind::jknet, ModelKind::gcnii, ModelKind::gat, ModelKind::gat_sep, ModelKind::gatv2};

/// Every model with either norm trains alike on one rank and on as many as the options say.
void expect_like_one_rank(const Dataset& data, const TrainOptions& options) {
  for (const ModelKind kind : kAllModels) {
    for (const NormLayer norm : {NormLayer::layer, NormLayer::batch}) {
      SCOPED_TRACE(test::name_of(kind) + (norm == NormLayer::batch ? ", batch" : ", layer"));
      TrainOptions o = options;
      o.model.kind = kind;
      o.model.norm = norm;
      if (attends(o.model) && o.model.hidden % o.model.heads != 0) o.model.heads = 1;
      const TrainResult many = train(data, o);
      o.partition.parts = 1;
      const TrainResult one = train(data, o);
      EXPECT_NEAR(many.epochs[0].loss, one.epochs[0].loss, 1e-5);
      EXPECT_EQ(many.predictions.size(), one.predictions.size());
    }
  }
}

// A rank without training nodes has no rows: only in inductive training can there be one.
TEST(EdgeCases, RanksWithoutTrainingNodesTakePartInInductiveTraining) {
  for (const bool precompute : {true, false}) {
    for (const bool sparse : {false, true}) {
      Dataset data = test::make_small_dataset(24, 6, 2, 8, false, sparse);
      set_roles(data,
                [](std::size_t v, Role r) { return r == Role::train && v > 4 ? Role::test : r; });
      TrainOptions options = four_epochs(8);
      options.model.layers = 3;
      options.model.residual = Residual::identity;
      options.model.precompute = precompute;
      options.metric = Metric::accuracy;
      options.inductive = true;
      options.exchange.staleness = 1;
      expect_like_one_rank(data, options);
    }
  }
}

TEST(EdgeCases, OneHiddenColumnTrains) {
  const Dataset data = test::make_small_dataset(60, 6, 3, 8);
  TrainOptions options = four_epochs(3);
  options.model.hidden = 1;
  options.model.layers = 3;
  options.model.dropout = 0;
  expect_like_one_rank(data, options);
}

// No value is older than the run, so the ring needs no more slots than there are epochs.
TEST(EdgeCases, StalenessBeyondTheRunIsThatOfTheRun) {
  const Dataset data = test::make_small_dataset(200, 8, 3, 8);
  TrainOptions o = four_epochs(3);
  o.exchange.staleness = 3;
  const TrainResult bounded = train(data, o);
  o.exchange.staleness = std::numeric_limits<int>::max();
  const TrainResult unbounded = train(data, o);
  for (std::size_t e = 0; e < 4; ++e) {
    EXPECT_EQ(unbounded.epochs[e].lag, static_cast<int>(e));
    EXPECT_EQ(unbounded.epochs[e].loss, bounded.epochs[e].loss);
  }
  EXPECT_EQ(unbounded.memory.halo, bounded.memory.halo);
}

TEST(EdgeCases, RunsInSeveralThreadsAtOnceDoNotDisturbEachOther) {
  const Dataset data = test::make_small_dataset(200, 8, 3, 8);
  TrainOptions o = four_epochs(2);
  o.exchange.staleness = 1;
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
  const TrainResult alone = train(data, o);
  std::vector<TrainResult> results(3);
  std::vector<std::thread> threads;
  for (TrainResult& result : results) {
    threads.emplace_back([&data, &o, &result] { result = train(data, o); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const TrainResult& result : results) {
    EXPECT_EQ(result.predictions, alone.predictions);
    EXPECT_EQ(result.epochs.back().loss, alone.epochs.back().loss);
    EXPECT_EQ(result.memory.halo, alone.memory.halo);
    EXPECT_EQ(result.bytes_per_epoch.total(), alone.bytes_per_epoch.total());
  }
}

/// The scores of test nodes, and whether each is of class 1.
std::vector<std::pair<float, std::uint8_t>> test_scores(const Dataset& data, const TrainResult& r) {
  std::vector<std::pair<float, std::uint8_t>> scored;
  for (std::size_t v = 0; v < r.scores.size(); ++v) {
    if (data.splits[0].role[v] != Role::test) continue;
    scored.emplace_back(r.scores[v], data.labels.class_of[v] == 1);
  }
  return scored;
}

TEST(EdgeCases, ScoresOfABinaryTargetRankItAsReported) {
  const Dataset data = test::make_small_dataset(300, 8, 2, 8);
  TrainOptions o = four_epochs(3);
  o.epochs = 20;
  const TrainResult r = train(data, o);
  ASSERT_EQ(r.metric, Metric::auc);
  ASSERT_EQ(r.scores.size(), 300U);
  for (std::size_t v = 0; v < 300; ++v) {
    EXPECT_EQ(r.predictions[v] == 1, r.scores[v] > 0.5F) << v;
  }
  auto scored = test_scores(data, r);
  EXPECT_NEAR(roc_auc(scored), r.test_metric, 1e-3);  // Probabilities near 1 may be equal.
  EXPECT_GT(r.test_metric, 0.6);
}

TEST(EdgeCases, AveragePrecisionKeepsScoresToo) {
  const Dataset data = test::make_small_dataset(300, 8, 2, 8);
  TrainOptions o = four_epochs(3);
  o.epochs = 20;
  o.metric = Metric::average_precision;
  const TrainResult r = train(data, o);
  auto scored = test_scores(data, r);
  EXPECT_NEAR(average_precision(scored), r.test_metric, 1e-3);
  EXPECT_GT(r.test_metric, 0.6);
}

TEST(EdgeCases, BalancedWeightsMakeClassesOfAnySizeCountEqually) {
  // With one class in ten training nodes, a model that ignores its input has the least loss where
  // both classes are equally likely.
  Dataset data = test::make_small_dataset(400, 4, 2, 8);
  std::vector<std::int32_t> class_of(400);
  for (std::size_t v = 0; v < 400; ++v) class_of[v] = v % 10 == 0 ? 1 : 0;
  data.labels.class_of = class_of;
  data.features.dense = std::vector<float>(1600, 0.0F);
  set_roles(data, [](std::size_t, Role) { return Role::train; });
  TrainOptions o = four_epochs(3);
  o.model.layers = 1;
  o.model.dropout = 0;
  o.epochs = 300;
  o.loss.class_weights = ClassWeights::balanced;
  EXPECT_NEAR(train(data, o).epochs.back().loss, std::log(2.0), 1e-4);
  o.loss.class_weights = ClassWeights::none;
  EXPECT_NEAR(train(data, o).epochs.back().loss, -0.1 * std::log(0.1) - 0.9 * std::log(0.9), 1e-4);
}

TEST(EdgeCases, TrainingNodesOfOneClassAreWarnedOf) {
  Dataset data = test::make_small_dataset(60, 4, 3, 8);
  set_roles(data, [&](std::size_t v, Role r) {
    if (r == Role::none) return r;
    return data.labels.class_of[v] == 1 ? Role::train : Role::test;
  });
  std::string warnings;
  TrainCallbacks callbacks;
  callbacks.log = [&](LogLevel, std::string_view text) { warnings += text; };
  TrainOptions o = four_epochs(2);
  o.epochs = 40;
  o.guard = true;
  o.loss.label_smoothing = 0.1;
  o.exchange.staleness = 1;
  o.exchange.stale_sites = "all";
  const test::TemporaryDirectory folder;
  write_shards(data, make_partition(data.graph, o.partition), o, folder / "shards");
  for (const bool shards : {false, true}) {
    warnings.clear();
    const auto result =
        shards ? train_shards(folder / "shards", o, callbacks) : train(data, o, callbacks);
    EXPECT_EQ(result.epochs.size(), 40U);
    EXPECT_THAT(warnings,
                HasSubstr("every training node has class 1, so there is nothing to learn"));
    EXPECT_THAT(warnings, ::testing::Not(::testing::AnyOf(HasSubstr("ignoring features and graph"),
                                                          HasSubstr("has gone astray"))));
  }
}

TEST(EdgeCases, AClassWithoutTrainingNodesCannotBeBalanced) {
  Dataset data = test::make_small_dataset(200, 8, 3, 8);
  const auto& class_of = data.labels.class_of;
  set_roles(data, [&](std::size_t v, Role r) {
    return r == Role::train && class_of[v] == 2 ? Role::none : r;
  });
  TrainOptions o = four_epochs(2);
  EXPECT_NO_THROW(train(data, o));
  o.loss.class_weights = ClassWeights::balanced;
  test::expect_error(ErrorCode::bad_input, "class 2 has no training node", [&] { train(data, o); });
  data.class_names = {"ham", "spam", "eggs"};
  o.partition.parts = 1000;  // It is refused before the graph is cut, which refuses this.
  test::expect_error(ErrorCode::bad_input, "class 2 (eggs)", [&] { train(data, o); });
}

TEST(EdgeCases, LossesOfOneClassANodeAreRefusedForMultiLabel) {
  const Dataset data = test::make_small_dataset(100, 8, 3, 8, true);
  TrainOptions o = four_epochs(2);
  o.loss.class_weights = ClassWeights::balanced;
  test::expect_error(ErrorCode::usage, "class-weights balanced", [&] { train(data, o); });
  o.loss = {0.1F, ClassWeights::none};
  test::expect_error(ErrorCode::usage, "label-smoothing", [&] { train(data, o); });
}

TEST(EdgeCases, InductiveFeaturesAreStandardizedByTrainingNodesOnly) {
  Dataset data = test::make_small_dataset(200, 8, 3, 8);
  TrainOptions o = four_epochs(3);
  o.inductive = true;
  o.normalize = Normalization::standard;
  const TrainResult before = train(data, o);
  std::vector<float> changed(data.features.dense.begin(), data.features.dense.end());
  for (std::size_t v = 0; v < 200; ++v) {
    if (data.splits[0].role[v] == Role::train) continue;
    for (std::size_t c = 0; c < 8; ++c) changed[v * 8 + c] *= 3.0F;
  }
  data.features.dense = Array<float>(changed);
  const TrainResult after = train(data, o);
  for (std::size_t e = 0; e < 4; ++e) EXPECT_EQ(before.epochs[e].loss, after.epochs[e].loss);
}

TEST(EdgeCases, ASplitThatDoesNotFitTheLabelsIsRefused) {
  for (const bool multilabel : {false, true}) {
    Dataset data = test::make_small_dataset(100, 8, 3, 8, multilabel);
    ASSERT_FALSE(data.labels.has_label(16));
    set_roles(data, [](std::size_t v, Role r) { return v == 16 ? Role::train : r; });
    test::expect_error(ErrorCode::bad_input, "node 16", [&] { train(data, four_epochs(2)); });
    data.splits[0].role = std::vector<Role>(99, Role::train);
    test::expect_error(ErrorCode::bad_input, "", [&] { train(data, four_epochs(2)); });
  }
}

TEST(EdgeCases, AModelOfOneLayerTrains) {
  const Dataset data = test::make_small_dataset(200, 8, 4, 8, true);
  for (const bool transform_first : {false, true}) {
    TrainOptions o = four_epochs(3);
    o.model.layers = 1;
    o.model.dropout = 0;
    o.model.precompute = false;
    o.model.transform_first = transform_first;
    o.epochs = 60;
    const TrainResult r = train(data, o);
    EXPECT_LT(r.epochs.back().loss, 0.9 * r.epochs.front().loss);
    EXPECT_GT(r.bytes_per_epoch.halo_forward, 0);
  }
}

TEST(EdgeWeights, ThatAreEqualLeaveMeans) {
  Dataset data = test::make_small_dataset(80, 12, 4, 3);
  TrainOptions options = test::small_options(3, 3);
  options.model.kind = ModelKind::sage;
  const TrainResult plain = train(data, options);
  data.graph.edge_weights =
      std::vector<float>(static_cast<std::size_t>(data.graph.entries()), 4.0F);
  const TrainResult weighted = train(data, options);
  for (std::size_t e = 0; e < plain.epochs.size(); ++e) {
    EXPECT_NEAR(weighted.epochs[e].loss / plain.epochs[e].loss, 1, 1e-6);
  }
  data.graph.edge_weights =
      std::vector<float>(static_cast<std::size_t>(data.graph.entries()), 1.0F);
  EXPECT_EQ(train(data, options).epochs[2].loss, plain.epochs[2].loss);
}

TEST(EdgeWeights, OfZeroAreWarnedOfWhereAModelUsesThem) {
  Dataset data = test::make_small_dataset(80, 12, 4, 3);
  data.graph.edge_weights =
      std::vector<float>(static_cast<std::size_t>(data.graph.entries()), 0.0F);
  TrainOptions options = test::small_options(2, 1);
  TrainCallbacks callbacks;
  std::string lines;
  callbacks.log = [&](LogLevel, std::string_view text) { lines.append(text).append("\n"); };
  train(data, options, callbacks);
  EXPECT_NE(lines.find("every edge has the weight 0"), std::string::npos) << lines;
  lines.clear();
  options.model.kind = ModelKind::gat;
  train(data, options, callbacks);
  EXPECT_EQ(lines.find("the weight 0"), std::string::npos) << lines;
  EXPECT_NE(lines.find("model gat does not use the weights"), std::string::npos) << lines;
}

}  // namespace
}  // namespace heliograph
