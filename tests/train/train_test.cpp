#include "heliograph/train.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "heliograph/checkpoint.hpp"
#include "heliograph/error.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "support/steps.hpp"

namespace heliograph {
namespace {

TrainOptions small_options(int ranks = 3) { return test::small_options(ranks, 30); }

TEST(Train, LearnsASeparableGraph) {
  const Dataset data = test::make_small_dataset(400, 16, 4, 3);
  for (const int bits : {1, 2, 4, 8, 16, 32}) {
    TrainOptions o = small_options(4);
    o.epochs = 60;
    o.exchange.bits_forward = o.exchange.bits_backward = Bits{bits};
    const TrainResult r = train(data, o);
    EXPECT_LT(r.epochs.back().loss, 0.5 * r.epochs.front().loss) << bits << " bits";
    EXPECT_GT(r.test_metric, 0.6) << bits << " bits";
  }
}

TEST(Train, OneBitAWideRowWeighsTwentyEightTimesLess) {
  const Dataset data = test::make_small_dataset(2500, 8, 3, 3);
  TrainOptions o = small_options(2);
  o.partition.partitioner = Partitioner::random;
  o.model.layers = 3;
  o.model.hidden = 256;
  o.model.transform_first = false;
  o.epochs = 1;
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
  const TrainResult one = train(data, o);
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::fp32;
  const TrainResult full = train(data, o);
  const auto halo = [](const TrainResult& r) {
    return r.bytes_per_epoch.halo_forward + r.bytes_per_epoch.halo_backward;
  };
  EXPECT_GT(one.partition.communication_volume, 1000);
  EXPECT_EQ(full.fp32_bytes_per_epoch, halo(full));
  EXPECT_EQ(one.fp32_bytes_per_epoch, halo(full));
  // Layers 1 and 2, forward and backward: 256 columns each, rows of 1024 bytes.
  EXPECT_EQ(halo(full), 4 * 1024 * full.partition.communication_volume);
  EXPECT_GE(static_cast<double>(halo(full)) / static_cast<double>(halo(one)), 28.0);
}

TEST(Train, EveryLinkAndSiteIsCountedByItself) {
  const Dataset data = test::make_small_dataset(300, 8, 3, 3);
  TrainOptions o = small_options(3);
  o.partition.partitioner = Partitioner::random;
  o.model.layers = 3;
  o.model.hidden = 40;
  o.model.transform_first = false;
  o.epochs = 4;
  o.exchange.bits_forward = Bits::two;
  o.exchange.bits_backward = Bits::eight;
  const TrainResult r = train(data, o);
  // Layers 1 and 2, both directions, six directed links.
  EXPECT_EQ(r.halo_traffic.size(), 2U * 2 * 6);
  TrafficBytes sum;
  std::int64_t fp32 = 0;
  for (const LinkTraffic& link : r.halo_traffic) {
    EXPECT_NE(link.from, link.to);
    const bool backward = r.sites[static_cast<std::size_t>(link.site)].backward;
    (backward ? sum.halo_backward : sum.halo_forward) += link.bytes;
    fp32 += link.fp32_bytes;
    // Rows have 40 columns, in each of 4 epochs. Features after a ReLU have a step but no minimum.
    const std::int64_t rows = link.fp32_bytes / (4 * 40 * 4);
    EXPECT_EQ(link.bytes, 4 * rows * (backward ? 4 + 40 : 2 + 10));
  }
  EXPECT_EQ(sum.halo_forward, 4 * r.bytes_per_epoch.halo_forward);
  EXPECT_EQ(sum.halo_backward, 4 * r.bytes_per_epoch.halo_backward);
  EXPECT_EQ(fp32, 4 * r.fp32_bytes_per_epoch);
}

TEST(Train, PredictionsComeInTheUsersOrderAndScoreAsReported) {
  const Dataset data = test::make_small_dataset(300, 16, 4, 8);
  TrainOptions o = small_options(4);
  o.partition.partitioner = Partitioner::random;
  const TrainResult r = train(data, o);
  ASSERT_EQ(r.predictions.size(), 300U);
  double hits = 0;
  double total = 0;
  for (std::size_t v = 0; v < 300; ++v) {
    if (data.splits[0].role[v] != Role::test) continue;
    total += 1;
    hits += r.predictions[v] == data.labels.class_of[v] ? 1 : 0;
  }
  EXPECT_DOUBLE_EQ(r.test_metric, hits / total);
  ASSERT_GE(r.best_epoch, 0);
  const EpochReport& best = r.epochs[static_cast<std::size_t>(r.best_epoch)];
  EXPECT_EQ(*best.test_metric, r.test_metric);
  for (const EpochReport& e : r.epochs) EXPECT_LE(*e.val_metric, r.val_metric);
}

TEST(Train, EvaluationDoesNotDependOnTheChunkSize) {
  const Dataset data = test::make_small_dataset(200, 40, 4, 8);
  TrainOptions o = small_options(3);
  const TrainResult whole = train(data, o);
  o.eval_chunk_bytes = 1;  // The least bound gives 16 columns at a time.
  const TrainResult chunked = train(data, o);
  EXPECT_EQ(whole.predictions, chunked.predictions);
  EXPECT_EQ(whole.val_metric, chunked.val_metric);
}

TEST(Train, InductiveTrainingSeesTrainingNodesOnly) {
  Dataset data = test::make_small_dataset(300, 16, 4, 8);
  TrainOptions o = small_options(3);
  o.inductive = true;
  o.epochs = 5;
  const TrainResult before = train(data, o);
  // Features of other nodes must not reach the training loss.
  std::vector<float> changed(data.features.dense.begin(), data.features.dense.end());
  for (std::size_t v = 0; v < 300; ++v) {
    if (data.splits[0].role[v] == Role::train) continue;
    for (std::size_t c = 0; c < 16; ++c) changed[v * 16 + c] += 5.0F;
  }
  data.features.dense = Array<float>(changed);
  const TrainResult after = train(data, o);
  for (std::size_t e = 0; e < before.epochs.size(); ++e) {
    EXPECT_EQ(before.epochs[e].loss, after.epochs[e].loss) << e;
  }
  EXPECT_NE(before.predictions, after.predictions);
}

TEST(Train, EmptyPartsAndOneNodeAPartAreOrdinary) {
  const Dataset data = test::make_small_dataset(8, 4, 2, 8);
  TrainOptions o = small_options(8);
  o.epochs = 3;
  const TrainResult r = train(data, o);
  EXPECT_EQ(r.epochs.size(), 3U);
  TrainOptions one = small_options(1);
  one.epochs = 3;
  EXPECT_NEAR(train(data, one).epochs[0].loss, r.epochs[0].loss, 1e-5);
}

TEST(Train, StopsEarlyAfterPatienceEvaluations) {
  const Dataset data = test::make_small_dataset(200, 16, 4, 8);
  TrainOptions o = small_options();
  o.epochs = 500;
  o.patience = 4;
  const TrainResult r = train(data, o);
  EXPECT_EQ(r.stop_reason, "early_stopping");
  EXPECT_EQ(static_cast<int>(r.epochs.size()), r.best_epoch + 1 + 4);
}

TEST(Train, StopFlagEndsTheRunAtAnEpoch) {
  const Dataset data = test::make_small_dataset(200, 16, 4, 8);
  TrainOptions o = small_options();
  o.epochs = 100000;
  o.exchange.staleness = 2;
  StopFlag stop = false;
  TrainCallbacks callbacks;
  callbacks.stop = &stop;
  callbacks.on_epoch = [&](const EpochReport& e) {
    stop = e.epoch == 6;
    return EpochAction::proceed;
  };
  const TrainResult r = train(data, o, callbacks);
  EXPECT_EQ(r.stop_reason, "interrupted");
  EXPECT_EQ(r.epochs.size(), 7U);
}

TEST(Train, CallbackEndsTheRunAfterItsEpoch) {
  const Dataset data = test::make_small_dataset(200, 16, 4, 8);
  const test::TemporaryDirectory folder;
  for (const int ranks : {1, 3}) {
    TrainOptions o = small_options(ranks);
    o.epochs = 100000;
    o.checkpoint.folder = folder / std::to_string(ranks);
    TrainCallbacks callbacks;
    callbacks.on_epoch = [](const EpochReport& report) {
      return report.epoch == 4 ? EpochAction::stop : EpochAction::proceed;
    };
    const TrainResult r = train(data, o, callbacks);
    EXPECT_EQ(r.stop_reason, "interrupted");
    EXPECT_EQ(r.epochs.size(), 5U);
    EXPECT_EQ(newest_checkpoint(o.checkpoint.folder).filename(), "epoch-000005");
  }
}

TEST(Train, CallbackThatStopsAtTheLastEpochLeavesACheckpoint) {
  const Dataset data = test::make_small_dataset(200, 16, 4, 8);
  const test::TemporaryDirectory folder;
  TrainOptions o = small_options(2);
  o.epochs = 5;
  o.eval_every = 3;  // The last epoch is evaluated only because the run ends.
  o.checkpoint.folder = folder / "c";
  TrainCallbacks callbacks;
  callbacks.on_epoch = [](const EpochReport& report) {
    return report.epoch == 4 ? EpochAction::stop : EpochAction::proceed;
  };
  train(data, o, callbacks);
  EXPECT_EQ(newest_checkpoint(o.checkpoint.folder).filename(), "epoch-000005");
}

TEST(Train, ThrowsTheExceptionOfACallbackItself) {
  struct OwnError {
    int number;
  };
  const Dataset data = test::make_small_dataset(200, 16, 4, 8);
  for (const int ranks : {1, 3}) {
    TrainCallbacks callbacks;
    callbacks.on_epoch = [](const EpochReport& report) {
      if (report.epoch == 2) throw OwnError{17};
      return EpochAction::proceed;
    };
    try {
      train(data, small_options(ranks), callbacks);
      FAIL() << "nothing was thrown";
    } catch (const OwnError& error) {
      EXPECT_EQ(error.number, 17);
    }
  }
}

TEST(Train, ValuesThatOverflowAreNamed) {
  Dataset data = test::make_small_dataset(200, 16, 4, 8);
  std::vector<float> broken(data.features.dense.begin(), data.features.dense.end());
  std::fill_n(broken.begin() + 17 * 16, 16, std::numeric_limits<float>::max());
  data.features.dense = Array<float>(broken);
  for (const int ranks : {1, 3}) {
    test::expect_error(ErrorCode::numeric, {"node", "layer", "epoch"},
                       [&] { train(data, small_options(ranks)); });
  }
}

TEST(Train, ADivergingRunEndsWithANumericError) {
  const Dataset data = test::make_small_dataset(200, 16, 4, 8);
  TrainOptions o = small_options();
  o.model.norm = NormLayer::none;
  o.optimizer.lr = 1e30F;
  test::expect_error(ErrorCode::numeric, "epoch", [&] { train(data, o); });
}

TEST(Train, SchedulesAndSplitsThatDoNotFitAreRefused) {
  const Dataset data = test::make_small_dataset(200, 16, 4, 8);
  TrainOptions o = small_options();
  o.split = GivenSplit{3};
  test::expect_error(ErrorCode::usage, "split 3", [&] { train(data, o); });
  o = small_options();
  o.partition.parts = 201;
  test::expect_error(ErrorCode::usage, "", [&] { train(data, o); });
  o = small_options();
  o.exchange.bits_forward = Bits{3};
  test::expect_error(ErrorCode::usage, "", [&] { train(data, o); });
}

TEST(Train, LearningRateFollowsItsSchedule) {
  const Dataset data = test::make_small_dataset(60, 8, 3, 8);
  TrainOptions o = small_options(2);
  o.epochs = 10;
  o.optimizer.lr = 0.01F;
  o.optimizer.schedule = Schedule::step;
  o.optimizer.step_size = 4;
  o.optimizer.step_gamma = 0.1F;
  TrainResult r = train(data, o);
  EXPECT_NEAR(r.epochs[3].lr, 0.01, 1e-8);
  EXPECT_NEAR(r.epochs[4].lr, 0.001, 1e-8);
  EXPECT_NEAR(r.epochs[9].lr, 0.0001, 1e-8);
  o.optimizer = OptimizerOptions();  // Another schedule has no steps.
  o.optimizer.lr = 0.01F;
  o.optimizer.schedule = Schedule::cosine;
  r = train(data, o);
  EXPECT_NEAR(r.epochs[0].lr, 0.01, 1e-8);
  EXPECT_NEAR(r.epochs[5].lr, 0.005, 1e-8);
}

TEST(Train, ReportsWhereTimeAndBytesWent) {
  const Dataset data = test::make_small_dataset(400, 16, 4, 8);
  TrainOptions o = small_options(3);
  const TrainResult r = train(data, o);
  for (const EpochReport& e : r.epochs) {
    const EpochSeconds& p = e.parts;
    EXPECT_NEAR(p.aggregate + p.gemm + p.encode + p.exposed_comm + p.allreduce + p.other, e.seconds,
                1e-9);
    EXPECT_GT(e.bytes.halo_forward, 0);
    EXPECT_GT(e.bytes.halo_backward, 0);
    EXPECT_GT(e.bytes.allreduce, 0);
  }
  EXPECT_GT(r.peak_rss_bytes, 0);
  EXPECT_GT(r.memory.activations, 0);
  EXPECT_GT(r.evaluation_bytes, 0);
}

// Scaling all gradients alike hardly changes Adam's steps, so only the scale's change with the
// epochs shows: gradients shrink while the model learns.
TEST(Clipping, IsByTheNormOfAllRanksGradients) {
  const Dataset data = test::make_small_dataset(300, 24, 3, 3);
  const auto losses = [&](int ranks, float clip_norm) {
    TrainOptions o = test::small_options(ranks, 30);
    o.model.dropout = 0;
    o.optimizer.lr = 0.05F;
    o.optimizer.clip_norm = clip_norm;
    std::vector<double> all;
    for (const EpochReport& e : train(data, o).epochs) all.push_back(e.loss);
    return all;
  };
  const auto distance = [](const std::vector<double>& a, const std::vector<double>& b) {
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] / b[i] - 1));
    return most;
  };
  const auto clipped = losses(1, 0.05F);
  EXPECT_GT(distance(clipped, losses(1, 0)), 1e-2);
  EXPECT_LT(distance(losses(3, 0.05F), clipped), 1e-4);
}

// Only the first rows of the lower weight's gradient overflow, and they belong to one rank.
TEST(Numeric, AGradientThatOverflowsOnOneRankEndsTheRun) {
  Dataset data = test::make_small_dataset(300, 24, 2, 3);
  TrainOptions o = test::small_options(2, 1);
  o.model.kind = ModelKind::gcn;
  o.model.norm = NormLayer::none;
  o.model.dropout = 0;
  std::vector<test::Step> given = test::run_steps(data, o, {}, nullptr);
  const std::size_t lower = 24 * 16, hidden = 16;
  ASSERT_EQ(given[0].weights.size(), lower + hidden + hidden * 2 + 2);
  for (std::size_t i = 0; i < given[0].weights.size(); ++i) {
    const bool upper = i >= lower + hidden && i < lower + hidden + hidden * 2;
    given[0].weights[i] = i < lower ? 1e-25F : !upper ? 0.0F : i % 2 == 0 ? 1e30F : -1e30F;
  }
  std::vector<float> features(300 * 24, 0.0F);
  for (std::size_t v = 0; v < 300; ++v) features[v * 24] = 1e10F;
  data.features.dense = Array<float>(std::move(features));
  test::expect_error(ErrorCode::numeric, {"a weight gradient is NaN or Inf"},
                     [&] { test::run_steps(data, o, {}, &given); });
}

// Rounded gradients change losses, but not much, and all the less the more bits they have.
TEST(GradientBits, LossesFollowThoseOfExactGradients) {
  const Dataset data = test::make_small_dataset(300, 24, 3, 3);
  TrainOptions o = test::small_options(3, 20);
  const TrainResult exact = train(data, o);
  const auto distance = [&](Bits bits) {
    o.exchange.gradient_bits = bits;
    const TrainResult r = train(data, o);
    double most = 0;
    for (std::size_t e = 0; e < r.epochs.size(); ++e) {
      most = std::max(most, std::abs(r.epochs[e].loss / exact.epochs[e].loss - 1));
    }
    return most;
  };
  const double at_16 = distance(Bits::bf16), at_4 = distance(Bits::four);
  EXPECT_GT(at_16, 0);
  EXPECT_LT(at_16, 1e-2);
  EXPECT_GT(at_4, at_16);
  EXPECT_LT(at_4, 0.3);
}

}  // namespace
}  // namespace heliograph
