#include "heliograph/model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heliograph/checkpoint.hpp"
#include "heliograph/shards.hpp"
#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

// The weights of a run: in its result, in files, scored and fine-tuned.

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using test::TemporaryDirectory;

/// Features far from mean 0, whose statistics depend on the nodes that they are taken of.
Dataset shifted_data() {
  Dataset data = test::make_small_dataset(160, 6, 3, 5);
  std::vector<float> features(data.features.dense.begin(), data.features.dense.end());
  for (std::size_t i = 0; i < features.size(); ++i) {
    features[i] = 40 + static_cast<float>(i % 6) * (features[i] + static_cast<float>(i / 600));
  }
  data.features.dense = std::move(features);
  return data;
}

TrainOptions standard_options() {
  TrainOptions o = test::small_options(3, 12);
  o.split = RandomSplit{50, 25, 25, 1};
  o.normalize = Normalization::standard;
  o.inductive = true;  // The statistics are those of the training nodes.
  o.optimizer.lr = 0.05F;
  o.metric = Metric::macro_f1;
  return o;
}

void expect_scores_of(const TrainResult& run, const EvaluationResult& scored) {
  EXPECT_EQ(scored.metric, run.metric);
  EXPECT_EQ(scored.val_metric, run.val_metric);
  EXPECT_EQ(scored.test_metric, run.test_metric);
  EXPECT_EQ(scored.predictions, run.predictions);
}

TEST(ModelOfARun, ScoresAsTheRunReported) {
  const Dataset data = shifted_data();
  const TemporaryDirectory folder;
  for (const bool reproducible : {false, true}) {
    TrainOptions o = standard_options();
    o.reproducible = reproducible;
    const TrainResult r = train(data, o);
    ASSERT_LT(r.best_epoch, 11) << "the last epoch's weights must not be the best";
    ASSERT_TRUE(r.model);
    EXPECT_EQ(r.model->epoch, r.best_epoch);
    EXPECT_EQ(r.model->test_metric, r.test_metric);
    r.model->save(folder / "m.safetensors");
    const Model model = Model::load(folder / "m.safetensors");
    EXPECT_EQ(model.tensors, r.model->tensors);
    EXPECT_EQ(model.statistics, r.model->statistics);
    expect_scores_of(r, evaluate(data, o, model));
    if (!reproducible) continue;
    for (const int ranks : {1, 5}) {
      o.partition.parts = ranks;
      expect_scores_of(r, evaluate(data, o, model));
    }
  }
}

TEST(ModelOfARun, KeepsTheStatisticsOfItsFeaturesOnAnotherSplit) {
  const Dataset data = shifted_data();
  TrainOptions o = standard_options();
  const TrainResult r = train(data, o);
  o.split = RandomSplit{20, 40, 40, 9};
  const EvaluationResult other = evaluate(data, o, *r.model);
  EXPECT_EQ(other.predictions, r.predictions);
  EXPECT_NE(other.test_metric, r.test_metric);
}

TEST(ModelOfARun, HasTheLastWeightsIfNoneWereEvaluated) {
  const Dataset data = shifted_data();
  const TemporaryDirectory folder;
  TrainOptions o = standard_options();
  o.eval_every = 0;
  o.checkpoint.folder = folder.path();
  o.checkpoint.every = 12;
  const TrainResult r = train(data, o);
  ASSERT_TRUE(r.model);
  EXPECT_EQ(r.model->epoch, 11);
  EXPECT_TRUE(std::isnan(r.model->val_metric));
  EXPECT_EQ(r.model->tensors, Model::load(newest_checkpoint(folder.path())).tensors);
}

TEST(ModelOfARun, IsThatOfAnEpochInACheckpoint) {
  const Dataset data = shifted_data();
  const TemporaryDirectory folder;
  TrainOptions o = standard_options();
  o.checkpoint.folder = folder.path();
  o.checkpoint.every = 7;
  const TrainResult r = train(data, o);
  const Model seventh = Model::load(folder / "epoch-000007");
  EXPECT_EQ(seventh.epoch, 6);
  EXPECT_EQ(evaluate(data, o, seventh).test_metric, *r.epochs[6].test_metric);
  test::expect_error(ErrorCode::bad_input, "best.safetensors", [&] { Model::load(folder.path()); });
}

TEST(ModelOfARun, ComesFromShardsToo) {
  const Dataset data = shifted_data();
  const TemporaryDirectory folder;
  const TrainOptions o = standard_options();
  PartitionOptions cut = o.partition;
  write_shards(data, make_partition(data.graph, cut), o, folder / "shards");
  const TrainResult whole = train(data, o);
  const TrainResult r = train_shards(folder / "shards", o);
  ASSERT_TRUE(r.model);
  EXPECT_EQ(r.model->tensors, whole.model->tensors);
  EXPECT_EQ(r.model->statistics, whole.model->statistics);
  EXPECT_FALSE(r.model->statistics.empty());
  expect_scores_of(whole, evaluate_shards(folder / "shards", o, *r.model));

  // Shards whose features were normalised otherwise are refused.
  TrainOptions other = o;
  other.normalize = Normalization::row;
  write_shards(data, make_partition(data.graph, cut), other, folder / "rows");
  test::expect_error(ErrorCode::mismatch, "normalize",
                     [&] { evaluate_shards(folder / "rows", o, *r.model); });
  other = o;
  other.split = RandomSplit{20, 40, 40, 9};
  write_shards(data, make_partition(data.graph, cut), other, folder / "other");
  test::expect_error(ErrorCode::mismatch, "statistics",
                     [&] { evaluate_shards(folder / "other", o, *r.model); });
  r.model->save(folder / "m.safetensors");
  other.init_from = folder / "m.safetensors";
  write_shards(data, make_partition(data.graph, cut), other, folder / "other", true);
  EXPECT_EQ(evaluate_shards(folder / "other", o, *r.model).predictions, whole.predictions);
}

TEST(ModelOfARun, GivesNoScoresWithoutLabelsOrSplit) {
  const Dataset data = shifted_data();
  const TrainOptions o = standard_options();
  const TrainResult r = train(data, o);
  Dataset unlabelled = data;
  unlabelled.labels = {};
  Dataset without_split = data;
  without_split.splits.clear();
  TrainOptions given = o;
  given.split = GivenSplit();
  for (const auto& [scored, why] :
       {std::pair{evaluate(unlabelled, o, *r.model), "has no labels"},
        std::pair{evaluate(without_split, given, *r.model), "holds no split"}}) {
    EXPECT_NE(scored.unscored.find(why), std::string::npos) << scored.unscored;
    EXPECT_EQ(scored.split, "");
    EXPECT_TRUE(std::isnan(scored.train_metric) && std::isnan(scored.val_metric) &&
                std::isnan(scored.test_metric));
    EXPECT_EQ(scored.predictions, r.predictions);
  }
}

TEST(ModelOfARun, SaysThatNoSetHasAScore) {
  const Dataset data = test::make_small_dataset(80, 6, 2, 3);
  TrainOptions o = test::small_options(2, 2);
  o.split = RandomSplit{50, 25, 25, 1};
  o.metric = Metric::auc;
  const TrainResult r = train(data, o);
  Dataset one_class = data;
  one_class.labels.class_of = std::vector<std::int32_t>(80, 0);
  const EvaluationResult scored = evaluate(one_class, o, *r.model);
  EXPECT_TRUE(std::isnan(scored.test_metric));
  EXPECT_EQ(scored.unscored, "auc is defined for no set of the split");
  EXPECT_NE(scored.split, "");
  EXPECT_EQ(evaluate(data, o, *r.model).unscored, "");
}

TEST(ModelOfARun, RefusesDataThatDoNotFit) {
  const TrainOptions o = standard_options();
  const TrainResult r = train(shifted_data(), o);
  test::expect_error(ErrorCode::mismatch, {"6 feature columns", "7"},
                     [&] { evaluate(test::make_small_dataset(160, 7, 3, 5), o, *r.model); });
  test::expect_error(ErrorCode::mismatch, {"3 classes", "4"},
                     [&] { evaluate(test::make_small_dataset(160, 6, 4, 5), o, *r.model); });
}

TEST(ModelOfARun, KnowsTheKindOfItsGraph) {
  const auto data_of = [](bool directed, bool weighted) {
    Dataset data = test::make_small_dataset(80, 6, 3, 5, false, false, directed);
    return weighted ? test::with_weights(std::move(data)) : data;
  };
  const TemporaryDirectory folder;
  TrainOptions o = test::small_options(2, 2);
  for (const GraphKind trained : {GraphKind{false, false}, {true, false}, {true, true}}) {
    const Dataset data = data_of(trained.directed, trained.weighted);
    write_shards(data, make_partition(data.graph, o.partition), o, folder / "shards", true);
    const TrainResult run = train(data, o);
    EXPECT_EQ(run.model->graph, trained);
    EXPECT_EQ(train_shards(folder / "shards", o).model->graph, trained);
    run.model->save(folder / "m.safetensors");
    const Model model = Model::load(folder / "m.safetensors");
    EXPECT_NO_THROW(evaluate(data, o, model));
    for (const GraphKind other : {GraphKind{false, false}, {true, false}, {true, true}}) {
      if (other == trained) continue;
      const Dataset another = data_of(other.directed, other.weighted);
      const char* advice = other.directed != trained.directed ? "keep-direction" : "ignore-weights";
      const auto refused = [&](const auto& call) {
        test::expect_error(ErrorCode::mismatch, {"the weights to score: trained on", advice}, call);
      };
      refused([&] { evaluate(another, o, model); });
      refused([&] { model.predict(another); });
      write_shards(another, make_partition(another.graph, o.partition), o, folder / "other", true);
      refused([&] { evaluate_shards(folder / "other", o, model); });
      // Training may go on with another graph, and says so.
      TrainOptions next = o;
      next.init_from = folder / "m.safetensors";
      std::string warned;
      TrainCallbacks callbacks;
      callbacks.log = [&](LogLevel level, std::string_view text) {
        if (level == LogLevel::warning) warned += text;
      };
      train(another, next, callbacks);
      EXPECT_NE(warned.find("m.safetensors: its weights were trained on"), std::string::npos);
      EXPECT_NE(warned.find(advice), std::string::npos) << warned;
      Model unknown = model;  // As files of older builds.
      unknown.graph.reset();
      unknown.save(folder / "old.safetensors");
      EXPECT_NO_THROW(evaluate(another, o, Model::load(folder / "old.safetensors")));
    }
  }
}

TEST(Model, OnlyItsClassesHaveNamesSoThatTheyAreMatchedByNumber) {
  const Dataset data = shifted_data();
  const TemporaryDirectory folder;
  TrainOptions o = standard_options();
  o.epochs = 1;
  Model named = *train(data, o).model;
  for (int c = 0; c < named.classes; ++c) named.class_names.push_back("kind " + std::to_string(c));
  named.save(folder / "named.safetensors");
  std::string warnings;
  const LogCallback log = [&](LogLevel level, std::string_view line) {
    if (level == LogLevel::warning) warnings += line;
  };
  const char* sentence =
      "the classes of the model have names, those of the data set have none, so they are matched "
      "by number: 0 is 'kind 0'";
  evaluate(data, o, named, log);
  EXPECT_NE(warnings.find(sentence), std::string::npos) << warnings;
  warnings.clear();
  o.init_from = folder / "named.safetensors";
  TrainCallbacks callbacks;
  callbacks.log = log;
  train(data, o, callbacks);
  EXPECT_NE(warnings.find(sentence), std::string::npos) << warnings;
  warnings.clear();
  Dataset same = data;
  std::swap(same.class_names, named.class_names);
  evaluate(same, o, named, log);
  EXPECT_NE(warnings.find("matched by number: 0 is 'kind 0'"), std::string::npos) << warnings;
  warnings.clear();
  named.class_names = same.class_names;
  evaluate(same, o, named, log);
  train(same, o, callbacks);
  EXPECT_EQ(warnings, "");
}

TEST(FineTuning, BeginsWithTheWeightsOfAnEarlierRun) {
  const Dataset data = shifted_data();
  const TemporaryDirectory folder;
  TrainOptions o = standard_options();
  const TrainResult first = train(data, o);
  first.model->save(folder / "first.safetensors");
  // Other ranks, bits, learning rate and split; the statistics are those of the weights.
  TrainOptions next = o;
  next.init_from = folder / "first.safetensors";
  next.partition.parts = 2;
  next.exchange.bits_forward = next.exchange.bits_backward = Bits::four;
  next.optimizer.lr = 1e-9F;
  next.split = RandomSplit{20, 40, 40, 9};
  next.epochs = 1;
  const TrainResult second = train(data, next);
  EXPECT_EQ(second.model->statistics, first.model->statistics);
  ASSERT_EQ(second.model->tensors.size(), first.model->tensors.size());
  for (std::size_t t = 0; t < first.model->tensors.size(); ++t) {
    const Tensor &a = first.model->tensors[t], &b = second.model->tensors[t];
    for (std::size_t i = 0; i < a.values.size(); ++i) EXPECT_NEAR(a.values[i], b.values[i], 1e-6);
  }
  // A resumed run keeps the statistics, whatever has become of the file.
  next.epochs = 4;
  next.checkpoint.folder = folder / "saved";
  next.checkpoint.every = 2;
  const TrainResult whole = train(data, next);
  fs::remove(next.init_from);
  next.checkpoint.resume = folder / "saved" / "epoch-000002";
  const TrainResult resumed = train(data, next);
  EXPECT_EQ(resumed.model->tensors, whole.model->tensors);
  EXPECT_EQ(resumed.model->statistics, first.model->statistics);
}

TEST(FineTuning, RefusesOtherModelsByName) {
  const Dataset data = shifted_data();
  const TemporaryDirectory folder;
  TrainOptions o = standard_options();
  train(data, o).model->save(folder / "m.safetensors");
  o.init_from = folder / "m.safetensors";
  o.model.hidden = 9;
  test::expect_error(ErrorCode::mismatch, {"m.safetensors", "hidden 16", "hidden 9"},
                     [&] { train(data, o); });
  o.model.hidden = 16;
  o.model.norm = NormLayer::layer;  // What auto stands for.
  EXPECT_NO_THROW(train(data, o));
  o.model.kind = ModelKind::gcn;
  test::expect_error(ErrorCode::mismatch, {"model sage", "model gcn"}, [&] { train(data, o); });
  TrainOptions raw = standard_options();
  raw.init_from = o.init_from;
  raw.normalize = Normalization::none;
  test::expect_error(ErrorCode::mismatch, {"normalize standard", "normalize none"},
                     [&] { train(data, raw); });
  o.init_from = folder / "nowhere";
  test::expect_error(ErrorCode::bad_input, "nowhere", [&] { train(data, o); });
}

TEST(FineTuning, WarnsOfOptionsWithWhichTheWeightsComputeSomethingElse) {
  const Dataset data = shifted_data();
  const TemporaryDirectory folder;
  const fs::path file = folder / "m.safetensors";
  const auto warnings = [&](ModelKind kind, auto change) {
    TrainOptions o = standard_options();
    o.epochs = 1;
    o.model.kind = kind;
    train(data, o).model->save(file);
    o.init_from = file;
    change(o);
    std::vector<std::string> all;
    TrainCallbacks callbacks;
    callbacks.log = [&](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) all.emplace_back(text);
    };
    train(data, o, callbacks);
    return all;
  };
  const auto expect = [&](const std::string& difference, ModelKind kind, auto change) {
    EXPECT_EQ(warnings(kind, change),
              std::vector{"init-from " + file.string() + ": its weights were trained with " +
                          difference + ", with which they compute something else"});
  };
  using enum ModelKind;
  EXPECT_EQ(
      warnings(sage,
               [](auto& o) {
                 o.split = RandomSplit{60, 20, 20, 7};
               }),
      std::vector{"init-from " + file.string() +
                  ": its weights were trained on split random:50/25/25, seed 1, and this run has "
                  "random:60/20/20, seed 7: their training nodes may be among those scored "
                  "here"});
  EXPECT_EQ(warnings(gat, [](auto& o) { o.model.attention_dropout = 0.5F; }),
            std::vector<std::string>{});
  EXPECT_EQ(warnings(gat, [](auto& o) { o.model.output_heads = o.model.heads; }),
            std::vector<std::string>{});
  expect("activation relu, and this run has activation elu", sage,
         [](auto& o) { o.model.activation = ActivationFunction::elu; });
  expect("teleport 0.1, and this run has teleport 0.25", appnp,
         [](auto& o) { o.model.teleport = 0.25F; });
  expect("hops 10, and this run has hops 3", dagnn, [](auto& o) { o.model.hops = 3; });
  expect("alpha 0.1, and this run has alpha 0.5", gcnii, [](auto& o) { o.model.alpha = 0.5F; });
  EXPECT_TRUE(warnings(jknet, [](auto& o) {
                o.model.jk = JumpingKnowledge::concat;  // What none stands for.
                o.model.dropout = 0.1F;
                o.model.input_dropout = 0.2F;
                o.model.precompute = false;
                o.optimizer.lr = 0.5F;
                o.exchange.bits_forward = Bits::one;
                o.partition.parts = 2;
              }).empty());
}

}  // namespace
}  // namespace heliograph
