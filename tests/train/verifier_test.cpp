#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heliograph/train.hpp"
#include "layers/compose.hpp"
#include "support/distance.hpp"
#include "support/expect_error.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "support/steps.hpp"
#include "train/run/verification_summary.hpp"

// TrainOptions::verify_every: what each exchange does to a step.

namespace heliograph {
namespace {

TrainOptions options_of(ModelKind kind, Bits bits, int staleness) {
  TrainOptions o = test::small_options(3, 6);
  o.model.kind = kind;
  o.model.layers = 3;
  o.model.hidden = 24;
  o.model.dropout = 0.3F;
  o.exchange.bits_forward = o.exchange.bits_backward = test::bits_for(kind, bits);
  o.exchange.staleness = staleness;
  return o;
}

Dataset data_set() { return test::make_small_dataset(300, 16, 5, 3); }

struct Setting {
  const char* name;
  ModelKind kind;
  std::function<void(TrainOptions&)> change;
};

class Verified : public ::testing::TestWithParam<Setting> {};

TEST_P(Verified, ChangesNoNumberOfTheRun) {
  const Dataset data = data_set();
  TrainOptions o = options_of(GetParam().kind, Bits::one, 0);
  GetParam().change(o);
  const TrainResult plain = train(data, o);
  o.verify_every = 2;
  const TrainResult verified = train(data, o);
  test::expect_same_run(plain, verified);
  EXPECT_EQ(plain.evaluation_bytes, verified.evaluation_bytes);
  for (const EpochReport& report : verified.epochs) {
    ASSERT_EQ(report.verification.has_value(), report.epoch % 2 == 1);
    if (!report.verification) continue;
    EXPECT_EQ(report.verification->epoch, report.epoch);
    EXPECT_GT(report.verification->bytes, 0);
    EXPECT_GT(report.verification->whole.gradient.relative, 0);
    EXPECT_FALSE(report.verification->parts.empty());
    for (const VerifiedPart& part : report.verification->parts) {
      EXPECT_GT(part.gradient.relative, 0) << part.site;
      EXPECT_EQ(part.gradients.size(), report.verification->parameters.size());
      ASSERT_NE(part.aggregate.has_value(), attends(o.model)) << part.site;
      if (part.aggregate) {
        EXPECT_GT(part.aggregate->relative, 0) << part.site;
      }
      EXPECT_EQ(part.logits.relative > 0, part.site.ends_with(".forward")) << part.site;
    }
  }
}

const std::vector<Setting> settings{
    {"kept_columns_blocks", ModelKind::gcn,
     [](TrainOptions& o) {
       o.exchange.kept_columns = true;
       o.transport.row_blocks = 2;
     }},
    {"auto_bits_s1", ModelKind::sage,
     [](TrainOptions& o) {
       o.exchange.auto_bits = "auto:2";
       o.exchange.staleness = 1;
     }},
    {"covers_s2", ModelKind::sage,
     [](TrainOptions& o) {
       o.exchange.rows = ExchangedRows::cover;
       o.exchange.staleness = 2;
     }},
    {"lowest_backward_s1", ModelKind::sage,
     [](TrainOptions& o) {
       o.exchange.staleness = 1;
       o.exchange.stale_sites = "lowest-backward";
     }},
    {"batch_norm_sync_every", ModelKind::gin,
     [](TrainOptions& o) {
       o.model.norm = NormLayer::batch;
       o.exchange.staleness = 1;
       o.exchange.sync_every = 3;
     }},
    {"kept_columns_s2", ModelKind::gcn,
     [](TrainOptions& o) {
       o.exchange.kept_columns = true;
       o.exchange.staleness = 2;
     }},
    {"gat_s2", ModelKind::gat,
     [](TrainOptions& o) {
       o.model.attention_dropout = 0.3F;
       o.exchange.staleness = 2;
     }},
    {"gatv2_s1", ModelKind::gatv2, [](TrainOptions& o) { o.exchange.staleness = 1; }},
    {"gat_sep_fp32_backward", ModelKind::gat_sep,
     [](TrainOptions& o) { o.exchange.bits_backward = Bits::fp32; }},
    {"appnp_reproducible", ModelKind::appnp, [](TrainOptions& o) { o.reproducible = true; }},
    {"inductive_gradients", ModelKind::sage,
     [](TrainOptions& o) {
       o.inductive = true;
       o.exchange.gradient_bits = Bits::eight;
     }},
};

INSTANTIATE_TEST_SUITE_P(Settings, Verified, ::testing::ValuesIn(settings),
                         [](const auto& p) { return p.param.name; });

// The step of training against that of 32 synchronous bits from the same weights, which no code of
// verification makes.
TEST(Verification, ErrorIsTheDistanceOfTrainingsGradientFromTheExactOne) {
  const Dataset data = data_set();
  for (const ModelKind kind : {ModelKind::sage, ModelKind::gat}) {
    for (const int staleness : {0, 2}) {
      SCOPED_TRACE(test::name_of(kind) + ", S = " + std::to_string(staleness));
      TrainOptions o = options_of(kind, Bits::two, staleness);
      const std::vector<test::Step> trained = test::run_steps(data, o, {}, nullptr);
      TrainOptions exact = o;
      exact.exchange.bits_forward = exact.exchange.bits_backward = Bits::fp32;
      exact.exchange.staleness = 0;
      const std::vector<test::Step> expected = test::run_steps(data, exact, {}, &trained);
      o.verify_every = 1;
      for (const EpochReport& report : train(data, o).epochs) {
        const auto e = static_cast<std::size_t>(report.epoch);
        const double distance = test::relative_distance(trained[e].gradient, expected[e].gradient);
        EXPECT_NEAR(report.verification.value().whole.gradient.relative / distance, 1, 1e-4);
      }
    }
  }
}

/// The exchange to which verification gives the largest share of the gradients' error.
std::string largest_part(const TrainResult& result) {
  const MeanVerification mean = mean_verification(result.epochs);
  return mean.largest.site + ", " + mean.largest.name;
}

TEST(Verification, NamesTheOneExchangeAtFault) {
  const Dataset data = data_set();
  const ModelKind kind = ModelKind::sage;
  for (const char* site :
       {"layers.1.forward", "layers.1.backward", "layers.2.forward", "layers.2.backward"}) {
    SCOPED_TRACE(site);
    TrainOptions o = options_of(kind, Bits::fp32, 1);
    o.exchange.stale_sites = site;
    o.verify_every = 2;
    const TrainResult late = train(data, o);
    EXPECT_EQ(largest_part(late), std::string(site) + ", lag");
    // It is the only part, so it is all that the whole has.
    const Verification& last = *late.epochs.back().verification;
    EXPECT_EQ(last.parts.size(), 1U);
    EXPECT_EQ(last.parts[0].gradient.relative, last.whole.gradient.relative);
    EXPECT_EQ(last.parts[0].gradients, last.whole.gradients);
    // One late exchange among others whose rounding is small.
    o.exchange.bits_forward = o.exchange.bits_backward = Bits::bf16;
    EXPECT_EQ(largest_part(train(data, o)), std::string(site) + ", lag");
  }
  TrainOptions o = options_of(kind, Bits::eight, 0);
  o.model.layers = 2;
  o.verify_every = 2;
  o.exchange.bits_forward = Bits::one;
  EXPECT_EQ(largest_part(train(data, o)), "layers.1.forward, bits");
  std::swap(o.exchange.bits_forward, o.exchange.bits_backward);
  EXPECT_EQ(largest_part(train(data, o)), "layers.1.backward, bits");
}

// Gradients of attention that are late were computed from rows that had arrived late.
TEST(Verification, OneLateExchangeOfAttentionIsAllThatTheWholeHas) {
  const Dataset data = data_set();
  for (const ModelKind kind : {ModelKind::gat, ModelKind::gatv2, ModelKind::gat_sep}) {
    for (const char* site : {"layers.1.attention.forward", "layers.2.attention.backward"}) {
      SCOPED_TRACE(test::name_of(kind) + ", " + site);
      TrainOptions o = options_of(kind, Bits::fp32, 2);
      o.exchange.stale_sites = site;
      o.verify_every = 1;
      double largest = 0;
      for (const EpochReport& report : train(data, o).epochs) {
        const Verification& verification = report.verification.value();
        if (report.lag == 0) {
          EXPECT_TRUE(verification.parts.empty());
          continue;
        }
        ASSERT_EQ(verification.parts.size(), 1U);
        EXPECT_EQ(verification.parts[0].gradients, verification.whole.gradients);
        largest = std::max(largest, verification.whole.gradient.relative);
      }
      EXPECT_GT(largest, 1e-3);
    }
  }
}

// Roundings of different exchanges are independent, so their squares add up but for the noise of
// few draws and products of errors.
TEST(Verification, PartsExplainTheWhole) {
  const Dataset data = data_set();
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::sage}) {
    TrainOptions o = options_of(kind, Bits::four, 0);
    o.epochs = 20;
    o.verify_every = 1;
    const MeanVerification mean = mean_verification(train(data, o).epochs);
    double squares = 0, shares = 0;
    for (const MeanError& part : mean.parts) {
      squares += part.gradient * part.gradient;
      shares += part.share;
    }
    EXPECT_NEAR(squares / (mean.whole.gradient * mean.whole.gradient), 1, 0.15)
        << test::name_of(kind);
    EXPECT_NEAR(shares, 1, 1e-12);
  }
}

// An epoch that fits exactly has no gradients to which an error could be relative.
TEST(Verification, LeavesOutEpochsWhoseExactValuesAreZero) {
  const double infinite = std::numeric_limits<double>::infinity();
  const auto report = [](double gradient, double aggregate) {
    EpochReport made;
    VerifiedPart part;
    part.site = "layers.1.forward";
    part.gradient.relative = gradient;
    part.aggregate = VerifiedError{aggregate, 0, 0};
    Verification& verification = made.verification.emplace();
    verification.parts = {part};
    part.aggregate.reset();
    verification.whole = part;
    return made;
  };
  const std::vector<EpochReport> some{report(0.3, infinite), report(infinite, 0.5),
                                      report(0.4, infinite)};
  const MeanVerification mean = mean_verification(some);
  EXPECT_DOUBLE_EQ(mean.whole.gradient, std::sqrt(0.125));
  ASSERT_EQ(mean.parts.size(), 1U);
  EXPECT_DOUBLE_EQ(mean.parts[0].gradient, std::sqrt(0.125));
  EXPECT_DOUBLE_EQ(mean.parts[0].aggregate.value(), 0.5);
  EXPECT_EQ(mean.parts[0].share, 1);
  EXPECT_EQ(mean.largest.site, "layers.1.forward");
  const MeanVerification none = mean_verification({some.data() + 1, 1});
  EXPECT_TRUE(std::isnan(none.whole.gradient));
  EXPECT_EQ(none.parts[0].share, 0);
  EXPECT_EQ(none.largest.share, 0);
}

// Where a layer multiplies first, its sums and a bias are what comes next; biases begin as 0.
TEST(Verification, ErrorsOfTheLastSumsAreThoseOfLogits) {
  const Dataset data = data_set();
  for (const ExchangedRows rows : {ExchangedRows::boundary, ExchangedRows::cover}) {
    for (const bool reproducible : {false, true}) {
      for (const int blocks : {1, 3}) {
        if (reproducible && (blocks > 1 || rows == ExchangedRows::cover)) continue;
        TrainOptions o = options_of(ModelKind::gcn, Bits::two, 0);
        o.exchange.rows = rows;
        o.reproducible = reproducible;
        o.transport.row_blocks = blocks;
        o.epochs = o.verify_every = 1;
        const Verification verified = train(data, o).epochs[0].verification.value();
        int found = 0;
        for (const VerifiedPart& part : verified.parts) {
          if (part.site != "layers.2.forward") continue;
          ++found;
          EXPECT_NEAR(part.aggregate.value().relative / part.logits.relative, 1, 1e-5);
          EXPECT_NEAR(part.aggregate->cosine, part.logits.cosine, 1e-6);
        }
        EXPECT_EQ(found, 1);
      }
    }
  }
}

// Backward passes are linear in gradient rows, so roundings of these leave the mean where it is.
TEST(Verification, RoundedGradientRowsAreUnbiasedAlongTheGradient) {
  TrainOptions o = options_of(ModelKind::sage, Bits::one, 0);
  o.epochs = 150;
  o.verify_every = 1;
  o.eval_every = 0;
  std::map<std::string, std::vector<double>> shifts;
  for (const EpochReport& report : train(data_set(), o).epochs) {
    for (const VerifiedPart& part : report.verification.value().parts) {
      shifts[part.site].push_back(part.gradient.projection - 1);
      shifts[part.site + ", sums"].push_back(part.aggregate.value().projection - 1);
    }
  }
  for (const char* site : {"layers.1.backward", "layers.2.backward", "layers.1.forward, sums",
                           "layers.2.forward, sums", "layers.1.backward, sums"}) {
    double sum = 0, squares = 0;
    for (const double shift : shifts[site]) {
      sum += shift;
      squares += shift * shift;
    }
    const double mean = sum / o.epochs, error = std::sqrt(squares) / o.epochs;
    EXPECT_LT(std::abs(mean), 4 * error) << site;
    EXPECT_LT(error, 0.01) << site;
  }
}

TEST(Verification, FindsNothingWhereAllRowsAreExact) {
  TrainOptions o = options_of(ModelKind::sage, Bits::fp32, 0);
  o.verify_every = 3;
  const TrainResult r = train(data_set(), o);
  EXPECT_TRUE(r.epochs.back().verification.value().parts.empty());
  EXPECT_EQ(r.epochs.back().verification->whole.gradient.relative, 0);
  EXPECT_EQ(r.epochs.back().verification->whole.logits.cosine, 1);
  o.partition.parts = 1;
  EXPECT_FALSE(train(data_set(), o).epochs.back().verification);
}

}  // namespace
}  // namespace heliograph
