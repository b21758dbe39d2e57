#include "train/guard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "heliograph/checkpoint.hpp"
#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "train/plan/derived_exchanges.hpp"
#include "train/run/summary.hpp"

// A run that lag or few bits lead astray goes back and becomes safer; any other keeps its numbers.

namespace heliograph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<double> losses_of(const TrainResult& result) {
  std::vector<double> losses;
  for (const EpochReport& report : result.epochs) losses.push_back(report.loss);
  return losses;
}

/// The epochs before which the guard acted.
std::vector<int> actions_of(const TrainResult& result) {
  return test::epochs_with(result, &EpochReport::guard);
}

/// A run in fp32 that lags so much that it does not learn.
class Guarded : public ::testing::Test {
 protected:
  Guarded() {
    options_.model.kind = ModelKind::gcn;
    options_.model.layers = 3;
    options_.model.dropout = 0;  // Then nothing that is drawn depends on the epoch.
    options_.partition.partitioner = Partitioner::random;
    options_.transport.threads_per_rank = 1;
    options_.optimizer.lr = 0.02F;
    options_.exchange.staleness = 6;
    options_.guard = true;
  }
  TrainOptions synchronous() const {
    TrainOptions options = options_;
    options.exchange.staleness = 0;
    options.guard = false;
    return options;
  }

  Dataset data_ = test::make_small_dataset(120, 10, 4, 5);
  TrainOptions options_ = test::small_options(3, 40);
};

TEST(GuardExchanges, BecomeSynchronousAndDoubleTheirBits) {
  const auto bits_of = [](const ExchangeOptions& exchange) {
    std::string text;
    for (const ExchangeOptions& e : raised_exchanges(exchange)) {
      text += std::to_string(e.staleness) + ":" + std::to_string(bit_count(e.bits_forward)) + "/" +
              std::to_string(bit_count(e.bits_backward)) + e.auto_bits + " ";
    }
    return text;
  };
  ExchangeOptions exchange;
  EXPECT_EQ(bits_of(exchange), "0:32/32 ");
  exchange.staleness = 2;
  EXPECT_EQ(bits_of(exchange), "2:32/32 0:32/32 ");
  exchange.bits_forward = Bits::one;
  exchange.bits_backward = Bits::four;
  EXPECT_EQ(bits_of(exchange), "2:1/4 0:2/8 0:4/8 0:8/8 ");
  exchange.bits_backward = Bits::one;
  exchange.auto_bits = "auto";
  EXPECT_EQ(bits_of(exchange), "2:1/1auto 0:4/4 0:8/8 ");
}

TEST_F(Guarded, GoesOnAsASynchronousRunFromItsFirstWeights) {
  options_.optimizer.lr = 0.1F;  // Its loss rises from the beginning.
  options_.epochs = 41;
  const TrainResult result = train(data_, options_);
  ASSERT_THAT(actions_of(result), ElementsAre(21));
  EXPECT_EQ(result.epochs[21].guard->epochs, 0);
  EXPECT_EQ(result.epochs[20].lag, 6);
  EXPECT_EQ(result.epochs[21].lag, 0);
  const nlohmann::ordered_json action = {
      {"epochs", 0}, {"bits_forward", 32}, {"bits_backward", 32}};
  EXPECT_EQ(epoch_to_json(result.epochs[21]).at("guard"), action);
  EXPECT_FALSE(epoch_to_json(result.epochs[20]).contains("guard"));
  const auto summary = summarize(result, options_);
  EXPECT_EQ(summary.at("guard").size(), 1U);
  EXPECT_EQ(summary.at("guard")[0].at("epoch"), 21);
  EXPECT_TRUE(summary.at("late_sites").empty());
  TrainOptions exact = synchronous();
  exact.epochs = 20;
  const std::vector<double> all = losses_of(result);
  EXPECT_EQ(std::vector<double>(all.begin() + 21, all.end()), losses_of(train(data_, exact)));
}

TEST_F(Guarded, GoesBackToTheLastGoodWeights) {
  options_.model.layers = 2;
  options_.optimizer.lr = 0.7F;
  options_.exchange.warmup_epochs = 10;
  options_.epochs = 25;
  const TrainResult result = train(data_, options_);
  ASSERT_FALSE(actions_of(result).empty());
  const int next = actions_of(result).front();
  ASSERT_EQ(result.epochs[static_cast<std::size_t>(next)].guard->epochs, 10);
  const std::vector<double> expected = losses_of(train(data_, synchronous()));
  const std::vector<double> all = losses_of(result);
  EXPECT_EQ(std::vector<double>(all.begin() + next, all.end()),
            std::vector<double>(expected.begin() + 10, expected.begin() + 35 - next));
}

TEST_F(Guarded, LeavesARunAloneThatIsSlowToLearn) {
  options_.optimizer.lr = 0.0005F;
  const TrainResult guarded = train(data_, options_);
  EXPECT_GT(guarded.epochs.back().loss, std::log(4));  // There are 4 classes of about one size.
  EXPECT_THAT(actions_of(guarded), IsEmpty());
}

TEST_F(Guarded, LetsPatienceCountAnew) {
  options_.optimizer.lr = 0.1F;
  options_.eval_every = 5;
  options_.patience = 5;
  options_.epochs = 60;
  const TrainResult guarded = train(data_, options_);
  options_.guard = false;
  const TrainResult stopped = train(data_, options_);
  ASSERT_EQ(stopped.stop_reason, "early_stopping");
  ASSERT_GT(stopped.epochs.size(), 20U);
  EXPECT_THAT(actions_of(guarded), Not(IsEmpty()));
  EXPECT_GT(guarded.epochs.size(), stopped.epochs.size());
  EXPECT_GT(guarded.val_metric, stopped.val_metric);
}

TEST_F(Guarded, DoesNotActAfterTheLastEpoch) {
  options_.epochs = 20;
  EXPECT_THAT(actions_of(train(data_, options_)), IsEmpty());
  const test::TemporaryDirectory folder;
  options_.checkpoint.folder = folder / "c";
  options_.checkpoint.every = 20;
  train(data_, options_);
  options_.epochs = 40;
  options_.checkpoint.resume = newest_checkpoint(options_.checkpoint.folder);
  const TrainResult longer = train(data_, options_);
  options_.checkpoint = {};
  test::expect_same_run(longer, train(data_, options_));
  EXPECT_THAT(actions_of(longer), ElementsAre(20));
}

TEST_F(Guarded, HasNothingToDoInOtherRuns) {
  const auto guarded = [&](Task task, auto change) {
    TrainOptions options = options_;
    change(options);
    return guards(options, task);
  };
  const auto same = [](TrainOptions&) {};
  const auto starts_from_weights = [](TrainOptions& o) { o.init_from = "weights"; };
  EXPECT_TRUE(guarded(Task::multiclass, same));
  EXPECT_TRUE(guarded(Task::multiclass, starts_from_weights));
  EXPECT_TRUE(guarded(Task::regression, same));
  EXPECT_FALSE(guarded(Task::regression, starts_from_weights));
  EXPECT_FALSE(guarded(Task::multilabel, same));
  EXPECT_FALSE(guarded(Task::multiclass, [](TrainOptions& o) { o.guard = false; }));
  EXPECT_FALSE(guarded(Task::multiclass, [](TrainOptions& o) { o.model.layers = 1; }));
  EXPECT_FALSE(guarded(Task::multiclass, [](TrainOptions& o) { o.partition.parts = 1; }));
  EXPECT_FALSE(guarded(Task::multiclass, [](TrainOptions& o) { o.exchange.staleness = 0; }));
}

TEST_F(Guarded, KeepsTheNumbersOfARunThatStaysOnCourse) {
  options_.exchange.staleness = 1;
  options_.exchange.stale_sites = "lowest-backward";
  options_.exchange.bits_forward = options_.exchange.bits_backward = Bits::two;
  options_.optimizer.lr = 0.01F;
  const TrainResult guarded = train(data_, options_);
  EXPECT_TRUE(actions_of(guarded).empty());
  options_.guard = false;
  test::expect_same_run(guarded, train(data_, options_));
}

TEST_F(Guarded, IsResumedWithTheSameBits) {
  options_.model.dropout = 0.1F;
  options_.optimizer.lr = 0.1F;
  options_.eval_every = 3;
  const auto with = [](Bits bits, const std::string& chosen, Bits gradients) {
    ExchangeOptions exchange;
    exchange.staleness = 6;
    exchange.stale_sites = "all";
    exchange.bits_forward = exchange.bits_backward = bits;
    exchange.auto_bits = chosen;
    exchange.gradient_bits = gradients;
    return exchange;
  };
  for (const ExchangeOptions& exchange :
       {with(Bits::one, "", Bits::fp32), with(Bits::four, "", Bits::eight),
        with(Bits::one, "auto", Bits::fp32)}) {
    options_.exchange = exchange;
    options_.checkpoint = {};
    const TrainResult whole = train(data_, options_);
    ASSERT_FALSE(actions_of(whole).empty());
    const test::TemporaryDirectory folder;
    options_.checkpoint.folder = folder / "c";
    for (const int stop : {7, 19, 20, 23, 31}) {
      TrainCallbacks callbacks;
      callbacks.on_epoch = [&](const EpochReport& report) {
        return report.epoch + 1 == stop ? EpochAction::stop : EpochAction::proceed;
      };
      train(data_, options_, callbacks);
      options_.checkpoint.resume = newest_checkpoint(options_.checkpoint.folder);
      ASSERT_EQ(read_checkpoint(options_.checkpoint.resume).epochs, stop);
    }
    std::string log;
    TrainCallbacks callbacks;
    callbacks.log = [&](LogLevel, std::string_view line) { (log += line) += "\n"; };
    const TrainResult resumed = train(data_, options_, callbacks);
    EXPECT_THAT(log, HasSubstr("guard has gone back 1 time, so the run goes on without lag at"));
    test::expect_same_run(whole, resumed);
    EXPECT_EQ(actions_of(resumed), actions_of(whole));
  }
}

TEST_F(Guarded, MayBeAskedForWhenARunIsResumed) {
  options_.guard = false;
  options_.optimizer.lr = 0.1F;
  const test::TemporaryDirectory folder;
  options_.checkpoint.folder = folder / "c";
  options_.checkpoint.every = 5;
  options_.epochs = 5;
  train(data_, options_);
  options_.guard = true;
  options_.epochs = 40;
  options_.checkpoint.resume = newest_checkpoint(options_.checkpoint.folder);
  const TrainResult result = train(data_, options_);
  ASSERT_THAT(actions_of(result), ElementsAre(25));
  EXPECT_GE(result.epochs[25].guard->epochs, 5);
  options_.guard = false;
  options_.epochs = 45;
  options_.checkpoint.resume = newest_checkpoint(options_.checkpoint.folder);
  test::expect_error(ErrorCode::mismatch, "guard is false", [&] { train(data_, options_); });
}

TEST_F(Guarded, TakesNoMemoryWhereItHasNothingToDo) {
  options_.epochs = 2;
  options_.exchange.staleness = 0;  // In fp32.
  const TrainResult guarded = train(data_, options_);
  options_.guard = false;
  EXPECT_EQ(guarded.memory.weights, train(data_, options_).memory.weights);
}

TEST_F(Guarded, SaysWhereItKnowsNoLimit) {
  const Dataset data = test::make_small_dataset(120, 10, 4, 5, true);
  std::string log;
  TrainCallbacks callbacks;
  callbacks.log = [&](LogLevel, std::string_view line) { (log += line) += "\n"; };
  options_.epochs = 22;
  EXPECT_THAT(actions_of(train(data, options_, callbacks)), IsEmpty());
  EXPECT_THAT(log, HasSubstr("guard has no effect"));
  EXPECT_THAT(log, Not(HasSubstr("ignoring features")));
}

}  // namespace
}  // namespace heliograph
