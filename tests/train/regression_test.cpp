#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "comm/threads/transport.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/shards.hpp"
#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "train/metrics/scores.hpp"

// Training on one number a node.

namespace heliograph {
namespace {

using test::TemporaryDirectory;

Dataset numbers() { return test::with_numbers(test::make_small_dataset(220, 12, 4, 9)); }

TrainOptions number_options(int ranks, int epochs) {
  TrainOptions o = test::small_options(ranks, epochs);
  o.partition.partitioner = Partitioner::random;
  o.optimizer.lr = 0.05F;
  return o;
}

/// r2 and rmse of `predicted` over the nodes of a role, from their definitions.
std::pair<double, double> scores_of(const Dataset& data, Role role,
                                    const std::vector<float>& predicted) {
  double count = 0, sum = 0, residual = 0, total = 0;
  const auto each = [&](auto use) {
    for (std::size_t v = 0; v < predicted.size(); ++v) {
      if (data.splits[0].role[v] == role) use(double{data.labels.values[v]}, double{predicted[v]});
    }
  };
  each([&](double y, double p) { ++count, sum += y, residual += (y - p) * (y - p); });
  each([&](double y, double) { total += (y - sum / count) * (y - sum / count); });
  return {1 - residual / total, std::sqrt(residual / count)};
}

void expect_same_run(const TrainResult& a, const TrainResult& b) {
  ASSERT_EQ(a.epochs.size(), b.epochs.size());
  for (std::size_t e = 0; e < a.epochs.size(); ++e) {
    EXPECT_EQ(a.epochs[e].loss, b.epochs[e].loss) << e;
    EXPECT_EQ(a.epochs[e].val_metric, b.epochs[e].val_metric) << e;
  }
  EXPECT_EQ(a.best_epoch, b.best_epoch);
  EXPECT_EQ(a.test_metric, b.test_metric);
  EXPECT_EQ(a.values, b.values);
}

TEST(Regression, LearnsNumbersInTheirOwnUnits) {
  const Dataset data = numbers();
  const TrainResult r = train(data, number_options(3, 60));
  EXPECT_EQ(r.metric, Metric::r2);
  EXPECT_GT(r.test_metric, 0.5);
  EXPECT_TRUE(r.predictions.empty());
  ASSERT_EQ(r.values.size(), 220U);
  EXPECT_NEAR(scores_of(data, Role::test, r.values).first, r.test_metric, 1e-9);
  EXPECT_NEAR(scores_of(data, Role::validation, r.values).first, r.val_metric, 1e-9);
}

TEST(Regression, FirstLossIsTheMeanSquareOfStandardisedErrors) {
  // A model of one layer without features predicts 0, the mean of the training targets.
  Dataset data = numbers();
  data.features.dense = std::vector<float>(data.features.dense.size(), 0.0F);
  TrainOptions o = number_options(2, 1);
  o.model.layers = 1;
  const TrainResult r = train(data, o);
  EXPECT_NEAR(r.epochs[0].loss, 1.0, 1e-6);
}

TEST(Regression, TheBestEpochHasTheLeastError) {
  const Dataset data = numbers();
  TrainOptions o = number_options(2, 30);
  o.metric = Metric::rmse;
  const TrainResult r = train(data, o);
  const auto least = std::ranges::min_element(
      r.epochs, {}, [](const EpochReport& report) { return *report.val_metric; });
  EXPECT_EQ(r.best_epoch, least->epoch);
  EXPECT_GT(r.best_epoch, 0);
  EXPECT_EQ(r.val_metric, *least->val_metric);
  EXPECT_NEAR(scores_of(data, Role::test, r.values).second, r.test_metric, 1e-9);
}

TEST(Regression, FiftyReproducibleEpochsAgreeForAnyNumberOfRanks) {
  const Dataset data = numbers();
  TrainOptions o = number_options(1, 50);
  o.reproducible = true;
  const TrainResult expected = train(data, o);
  for (const int ranks : {2, 4, 7}) {
    o.partition.parts = ranks;
    const TrainResult got = train(data, o);
    for (std::size_t e = 0; e < 50; ++e) {
      EXPECT_NEAR(got.epochs[e].loss / expected.epochs[e].loss, 1, 1e-6) << ranks << " ranks " << e;
    }
    EXPECT_EQ(got.values, expected.values) << ranks;
    EXPECT_EQ(got.test_metric, expected.test_metric) << ranks;
    EXPECT_EQ(got.best_epoch, expected.best_epoch) << ranks;
  }
}

TEST(Regression, ResumesWithTheSameBits) {
  const Dataset data = numbers();
  const TemporaryDirectory folder;
  TrainOptions o = number_options(3, 9);
  o.metric = Metric::rmse;
  o.exchange.staleness = 1;
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
  const TrainResult whole = train(data, o);
  o.checkpoint.folder = folder / "c";
  o.checkpoint.every = 5;
  train(data, o);
  o.checkpoint.resume = folder / "c" / "epoch-000005";
  expect_same_run(whole, train(data, o));
}

TEST(Regression, ShardsTrainToTheSameBits) {
  const Dataset data = numbers();
  const TemporaryDirectory folder;
  const TrainOptions o = number_options(3, 8);
  write_shards(data, make_partition(data.graph, o.partition), o, folder / "shards");
  const TrainResult whole = train(data, o);
  const TrainResult r = train_shards(folder / "shards", o);
  expect_same_run(whole, r);
  EXPECT_EQ(r.model->target, whole.model->target);
  EXPECT_EQ(evaluate_shards(folder / "shards", o, *r.model).values, whole.values);
}

TEST(Regression, AModelPredictsInTheUnitsThatItWasTrainedOn) {
  const Dataset data = numbers();
  const TemporaryDirectory folder;
  TrainOptions o = number_options(2, 12);
  const TrainResult r = train(data, o);
  r.model->save(folder / "m.safetensors");
  const Model model = Model::load(folder / "m.safetensors");
  EXPECT_EQ(model.task, Task::regression);
  EXPECT_EQ(model.target, r.model->target);
  const EvaluationResult scored = evaluate(data, o, model);
  EXPECT_EQ(scored.values, r.values);
  EXPECT_EQ(scored.test_metric, r.test_metric);

  // On other targets the statistics stay those of the weights.
  Dataset other = data;
  std::vector<float> doubled(data.labels.values.begin(), data.labels.values.end());
  for (float& value : doubled) value *= 2;
  other.labels.values = doubled;
  EXPECT_EQ(evaluate(other, o, model).values, r.values);
  other.labels = Labels();
  other.splits.clear();
  PredictOptions request;
  request.ranks = 2;
  const std::vector<float> predicted = model.predict(other, request).values;
  for (std::size_t v = 0; v < predicted.size(); ++v) EXPECT_NEAR(predicted[v], r.values[v], 0.01);

  // Fine-tuning begins with outputs that mean the same.
  other = data;
  other.labels.values = doubled;
  o.init_from = folder / "m.safetensors";
  o.epochs = 1;
  EXPECT_EQ(train(other, o).model->target, model.target);
  TrainOptions cut = o;
  cut.init_from.clear();
  write_shards(other, make_partition(other.graph, o.partition), cut, folder / "shards");
  EXPECT_EQ(train_shards(folder / "shards", o).model->target, model.target);
  test::expect_error(ErrorCode::mismatch, {"one number a node", "one class a node"},
                     [&] { evaluate(test::make_small_dataset(220, 12, 4, 9), o, model); });
}

TEST(Regression, WhatDoesNotFitIsRefusedByName) {
  Dataset data = numbers();
  const auto refused = [&](const char* said, auto change, ErrorCode code = ErrorCode::usage) {
    TrainOptions o = number_options(2, 2);
    change(o);
    test::expect_error(code, said, [&] { train(data, o); });
  };
  refused("metric accuracy does not score one number a node; use r2 or rmse",
          [](auto& o) { o.metric = Metric::accuracy; });
  refused("label-smoothing", [](auto& o) { o.loss.label_smoothing = 0.1F; });
  refused("class-weights balanced", [](auto& o) { o.loss.class_weights = ClassWeights::balanced; });
  refused("per-class needs one class a node, but 'small' has one number a node", [](auto& o) {
    o.split = PerClassSplit{1, 2, 3};
  });
  data.labels.values = std::vector<float>(220, 7.0F);
  refused(
      "every training node has the target 7", [](auto&) {}, ErrorCode::bad_input);
  data = test::make_small_dataset(220, 12, 4, 9);
  refused("metric rmse does not score one class a node", [](auto& o) { o.metric = Metric::rmse; });
}

struct Scored {
  Role role;
  float target, predicted;
};

/// The scores of nodes that are dealt out to the ranks.
Scores regression_scores_of(const std::vector<Scored>& nodes, Metric metric, int ranks) {
  Scores result{};
  run_ranks(ranks, {}, [&](Communicator& comm) {
    LocalLabels mine;
    mine.task = Task::regression;
    mine.classes = 1;
    mine.target = {10, 2};  // Powers of 2 and small numbers: predictions are exact.
    std::vector<float> outputs;
    for (std::size_t v = 0; v < nodes.size(); ++v) {
      if (static_cast<int>(v) % ranks != comm.rank()) continue;
      mine.role.push_back(nodes[v].role);
      mine.values.push_back(nodes[v].target);
      outputs.push_back((nodes[v].predicted - 10) / 2);
    }
    const auto rows = static_cast<std::int64_t>(outputs.size());
    const Scores scores = distributed_scores(metric, mine, {outputs.data(), rows, 1, 1}, comm);
    if (comm.rank() == 0) result = scores;
  });
  return result;
}

TEST(Regression, ScoresHandWorked) {
  using enum Role;
  // Validation: squared errors 0, 0, 0 and 4; squared deviations from 2.5: 2.25, 0.25, 0.25, 2.25.
  const std::vector<Scored> nodes{{validation, 1, 1}, {train, 3, 3},      {validation, 4, 6},
                                  {test, 5, 5},       {validation, 3, 3}, {none, 99, 0},
                                  {train, 3, 3},      {test, 5, 6},       {validation, 2, 2}};
  for (const int ranks : {1, 2, 5}) {
    const Scores r2 = regression_scores_of(nodes, Metric::r2, ranks);
    EXPECT_DOUBLE_EQ(r2.validation, 1 - 4.0 / 5);
    EXPECT_EQ(r2.train, 1) << "constant targets, no error";
    EXPECT_EQ(r2.test, 0) << "constant targets, an error";
    const Scores rmse = regression_scores_of(nodes, Metric::rmse, ranks);
    EXPECT_DOUBLE_EQ(rmse.validation, 1);
    EXPECT_EQ(rmse.train, 0);
    EXPECT_DOUBLE_EQ(rmse.test, std::sqrt(0.5));
  }
  const std::vector<Scored> single{{validation, 7, 4}, {train, 2, 2}};
  EXPECT_TRUE(std::isnan(regression_scores_of(single, Metric::r2, 2).validation));
  EXPECT_TRUE(std::isnan(regression_scores_of(single, Metric::r2, 1).train))
      << "without an error too";
  EXPECT_TRUE(std::isnan(regression_scores_of(single, Metric::r2, 2).test)) << "no node";
  EXPECT_EQ(regression_scores_of(single, Metric::rmse, 2).validation, 3);
  EXPECT_TRUE(std::isnan(regression_scores_of(single, Metric::rmse, 2).test)) << "no node";
}

TEST(Regression, PatienceKnowsTheScoreOfEqualTargets) {
  Dataset data = numbers();
  std::vector<float> values(data.labels.values.begin(), data.labels.values.end());
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (data.splits[0].role[v] == Role::validation) values[v] = 0.1F;
  }
  data.labels.values = values;
  TrainOptions o = number_options(2, 20);
  o.patience = 3;
  const TrainResult r = train(data, o);
  EXPECT_EQ(r.val_metric, 0);
  EXPECT_EQ(r.best_epoch, 0);
  EXPECT_EQ(r.epochs.size(), 4U);
  o.split = RandomSplit{60, 0.4, 39.6, 0};  // One of 220 nodes.
  test::expect_error(ErrorCode::usage, "2 validation nodes", [&] { train(data, o); });
}

TEST(Regression, TheMetricIsR2UnlessGiven) {
  EXPECT_EQ(resolve_metric(Metric::automatic, Task::regression, 1), Metric::r2);
  EXPECT_TRUE(lower_is_better(Metric::rmse));
  EXPECT_FALSE(lower_is_better(Metric::r2));
}

}  // namespace
}  // namespace heliograph
