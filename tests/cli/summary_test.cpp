#include "train/run/summary.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace heliograph {
namespace {

/// Reports of `count` epochs that take 1, 2, 3, ... seconds of aggregation.
TrainResult result_of(int count) {
  TrainResult result;
  for (int e = 0; e < count; ++e) {
    EpochReport report;
    report.epoch = e;
    report.seconds = e + 1;
    report.parts.aggregate = e + 1;
    result.epochs.push_back(report);
  }
  result.metric = Metric::f1;
  result.stop_reason = "completed";
  result.best_epoch = 2;
  result.val_metric = 0.75;
  result.test_metric = 0.5;
  return result;
}

TEST(Quantile, InterpolatesBetweenNeighboursInOrder) {
  const std::vector<double> values{4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 0.95), 3.85);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 4);
  EXPECT_DOUBLE_EQ(quantile(std::vector<double>{7}, 0.95), 7);
  EXPECT_DOUBLE_EQ(quantile(std::vector<double>{}, 0.5), 0);
}

TEST(Summary, DropsFiveEpochsOfMoreThanTen) {
  const auto ten = summarize(result_of(10), {});
  EXPECT_EQ(ten.at("dropped_epochs"), 0);
  EXPECT_DOUBLE_EQ(ten.at("epoch_seconds").at("median"), 5.5);
  EXPECT_DOUBLE_EQ(ten.at("seconds").at("aggregate"), 5.5);
  const auto eleven = summarize(result_of(11), {});
  EXPECT_EQ(eleven.at("dropped_epochs"), 5);
  EXPECT_EQ(eleven.at("epochs"), 11);
  EXPECT_DOUBLE_EQ(eleven.at("epoch_seconds").at("median"), 8.5);
  EXPECT_DOUBLE_EQ(eleven.at("seconds").at("aggregate"), 8.5);
}

TEST(Summary, HoldsEveryFieldOfTheContract) {
  TrainOptions options;
  options.partition.parts = 3;
  options.exchange.bits_forward = Bits::one;
  options.exchange.bits_backward = Bits::eight;
  options.exchange.staleness = 2;
  TrainResult result = result_of(3);
  result.cuda_graph_ranks = 2;
  result.bytes_per_epoch = {1, 2, 4};
  const auto summary = summarize(result, options);
  for (const char* name : {"test_metric",
                           "val_metric",
                           "best_epoch",
                           "epochs",
                           "epoch_seconds",
                           "seconds",
                           "bytes_per_epoch",
                           "fp32_bytes_per_epoch",
                           "link_bytes_per_epoch",
                           "link_seconds_per_epoch",
                           "peak_rss_bytes",
                           "ranks",
                           "bits",
                           "staleness",
                           "memory",
                           "setup_peak_rss_bytes",
                           "shard_bytes",
                           "loading_bytes",
                           "setup_seconds",
                           "evaluation_bytes",
                           "metric",
                           "stop_reason",
                           "partition",
                           "parameters",
                           "dropped_epochs"}) {
    EXPECT_TRUE(summary.contains(name)) << name;
  }
  for (const char* name : {"aggregate", "gemm", "encode", "exposed_comm", "allreduce", "other"}) {
    EXPECT_TRUE(summary.at("seconds").contains(name)) << name;
  }
  EXPECT_EQ(summary.at("metric"), "f1");
  EXPECT_EQ(summary.at("ranks"), 3);
  EXPECT_EQ(summary.at("bytes_per_epoch").at("total"), 7);
  EXPECT_EQ(summary.at("cuda_graph_ranks"), 2);
  EXPECT_TRUE(summary.at("bits").is_null());
  EXPECT_EQ(summary.at("bits_forward"), 1);
  EXPECT_EQ(summary.at("bits_backward"), 8);
  EXPECT_EQ(summary.at("staleness"), 2);
  EXPECT_DOUBLE_EQ(summary.at("test_metric"), 0.5);
}

TEST(Summary, HasNullsWhereNothingWasEvaluated) {
  TrainResult result = result_of(1);
  result.best_epoch = -1;
  const auto summary = summarize(result, {});
  EXPECT_TRUE(summary.at("test_metric").is_null());
  EXPECT_TRUE(summary.at("val_metric").is_null());
  EXPECT_TRUE(summary.at("best_epoch").is_null());
}

TEST(Summary, RoomsOfMemoryAddUpToTheirTotal) {
  TrainResult result = result_of(3);
  result.memory = {1, 2, 4, 8, 16, 32, 64, 128};
  const auto summary = summarize(result, {});
  const auto& memory = summary.at("memory");
  EXPECT_EQ(memory.size(), 9U);
  EXPECT_EQ(memory.at("graph"), 1);
  EXPECT_EQ(memory.at("evaluation"), 128);
  EXPECT_EQ(memory.at("total"), 255);
}

TEST(EpochLine, SaysNullWhereNotEvaluated) {
  EpochReport report;
  report.epoch = 4;
  report.loss = 0.25;
  report.bytes = {100, 20, 3};
  report.lag = 1;
  const auto line = epoch_to_json(report);
  EXPECT_EQ(line.at("epoch"), 4);
  EXPECT_EQ(line.at("bytes"), 123);
  EXPECT_EQ(line.at("lag"), 1);
  EXPECT_TRUE(line.at("val_metric").is_null());
  EXPECT_TRUE(line.at("test_metric").is_null());
  report.val_metric = 0.5;
  EXPECT_DOUBLE_EQ(epoch_to_json(report).at("val_metric"), 0.5);
}

}  // namespace
}  // namespace heliograph
