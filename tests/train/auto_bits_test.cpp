#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heliograph/checkpoint.hpp"
#include "heliograph/io.hpp"
#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

// ExchangeOptions::auto_bits: rows choose their bits.

namespace heliograph {
namespace {

TrainOptions options_of(ModelKind kind, const std::string& budget, int epochs) {
  TrainOptions o = test::one_bit_options(kind, epochs);
  o.model.dropout = 0.5F;
  o.exchange.auto_bits = budget;
  return o;
}

Dataset data_set() { return test::make_small_dataset(300, 16, 5, 3); }

std::int64_t row_bytes(const TrainResult& result) {
  return result.bytes_per_epoch.halo_forward + result.bytes_per_epoch.halo_backward;
}

TEST(AutoBits, TakeNoMoreBytesThanTheirBudget) {
  const Dataset data = data_set();
  using Budgets = std::vector<std::pair<const char*, double>>;
  for (const auto& [kind, budgets] :
       {std::pair<ModelKind, Budgets>{ModelKind::gcn, {{"auto", 1}, {"auto:1.5", 1.5}}},
        {ModelKind::gcnii, {{"auto:1.5", 1.5}}},
        {ModelKind::appnp, {{"auto:2.7", 2.7}}}}) {
    // What boundary rows take at 1 and at 2 bits.
    TrainOptions uniform = options_of(kind, "", 8);
    const auto one = static_cast<double>(row_bytes(train(data, uniform)));
    uniform.exchange.bits_forward = uniform.exchange.bits_backward = Bits::two;
    const auto two = static_cast<double>(row_bytes(train(data, uniform)));
    for (const ExchangedRows rows : {ExchangedRows::boundary, ExchangedRows::cover}) {
      for (const auto& [budget, mean] : budgets) {
        SCOPED_TRACE(test::name_of(kind) + ", " + budget);
        TrainOptions o = options_of(kind, budget, 8);
        o.exchange.rows = rows;
        const TrainResult chosen = train(data, o);
        double bytes = 0;  // Epoch 0 has the fewest bits.
        for (const EpochReport& e : chosen.epochs) {
          if (e.epoch > 0)
            bytes += static_cast<double>(e.bytes.halo_forward + e.bytes.halo_backward);
        }
        bytes /= 7;
        const double may_take = one + (mean - 1) * (two - one);
        EXPECT_LE(bytes, 1.01 * may_take);  // Dropped columns are a random number.
        // Covers of a random graph may leave too few rows to spend it on.
        if (rows == ExchangedRows::boundary && chosen.kept_columns) {
          EXPECT_GT(bytes, 0.97 * may_take);
        }
        if (mean == 1 && !chosen.kept_columns && rows == ExchangedRows::boundary) continue;
        EXPECT_GT(std::ranges::max(chosen.sites, {}, &ExchangeSite::bits).bits, 1.1);
      }
    }
  }
}

// The error of the gradients of one step, from the same weights, in the same bytes.
TEST(AutoBits, AddLessErrorThanUniformBits) {
  const Dataset data = data_set();
  double errors[2] = {0, 0}, bytes[2] = {0, 0};
  for (const bool chosen : {false, true}) {
    TrainOptions o = options_of(ModelKind::sage, chosen ? "auto" : "", 2);
    o.verify_every = 2;
    for (o.seed = 1; o.seed < 5; ++o.seed) {
      const TrainResult r = train(data, o);
      const double error = r.epochs[1].verification.value().whole.gradient.relative;
      errors[chosen ? 1 : 0] += error * error;
      bytes[chosen ? 1 : 0] += static_cast<double>(row_bytes(r));
    }
  }
  EXPECT_LT(errors[1], 0.75 * errors[0]);
  EXPECT_LE(bytes[1], 1.01 * bytes[0]);
}

TEST(AutoBits, DependOnNeitherThreadsNorBlocks) {
  const Dataset data = test::make_small_dataset(1100, 12, 4, 3);
  for (const int staleness : {0, 1}) {
    TrainOptions o = options_of(ModelKind::sage, "auto:1.5", 4);
    o.exchange.rows = staleness == 0 ? ExchangedRows::cover : ExchangedRows::boundary;
    o.exchange.staleness = staleness;
    o.exchange.stale_sites = "lowest-backward";
    o.transport.row_blocks = 1;
    const TrainResult one = train(data, o);
    o.transport.row_blocks = 3;
    o.transport.threads_per_rank = 3;
    test::expect_same_run(one, train(data, o));
  }
}

// Bits are chosen anew after epoch 24, by what its rows held, also if the run ends there.
TEST(AutoBits, AreChosenAnewAndResumed) {
  const Dataset data = data_set();
  for (const auto& [staleness, stops] :
       {std::pair<int, std::vector<int>>{0, {25}}, {2, {24, 26}}}) {
    TrainOptions o = options_of(ModelKind::gcn, "auto:1.5", 29);
    o.exchange.staleness = staleness;
    o.exchange.stale_sites = "all";
    const TrainResult whole = train(data, o);
    EXPECT_EQ(whole.epochs[1].lag, 0);
    EXPECT_EQ(whole.epochs[24].lag, staleness);
    EXPECT_EQ(whole.epochs[25].lag, 0);
    for (const int first : stops) {
      SCOPED_TRACE(first);
      const test::TemporaryDirectory folder;
      TrainOptions part = o;
      part.epochs = first;
      part.checkpoint.folder = folder / "c";
      part.checkpoint.every = 100;
      const TrainResult before = train(data, part);
      if (first == 24) {
        EXPECT_NE(before.sites[0].bits, whole.sites[0].bits);
      }
      part.epochs = o.epochs;
      part.checkpoint.resume = newest_checkpoint(folder / "c");
      const TrainResult resumed = train(data, part);
      test::expect_same_run(whole, resumed);
      for (std::size_t s = 0; s < whole.sites.size(); ++s) {
        EXPECT_EQ(whole.sites[s].bits, resumed.sites[s].bits);
      }
    }
  }
}

// Rows that have the most bits anyway are those of a run at these bits.
TEST(AutoBits, AreUniformWhereTheFewestAreTheMost) {
  const Dataset data = data_set();
  for (const ExchangedRows rows : {ExchangedRows::boundary, ExchangedRows::cover}) {
    TrainOptions o = options_of(ModelKind::gcn, "", 5);
    o.exchange.bits_forward = o.exchange.bits_backward = Bits::four;
    o.exchange.kept_columns = true;
    o.exchange.rows = rows;
    o.exchange.staleness = 1;
    o.exchange.stale_sites = "all";
    o.exchange.warmup_epochs = 2;  // Bits are chosen after the first epoch.
    const TrainResult uniform = train(data, o);
    o.exchange.auto_bits = "auto:4";
    const TrainResult chosen = train(data, o);
    EXPECT_EQ(row_bytes(chosen), row_bytes(uniform));
    for (std::size_t e = 0; e < 5; ++e) EXPECT_EQ(chosen.epochs[e].loss, uniform.epochs[e].loss);
  }
}

// Partial sums may take more than the rows that they replace.
TEST(AutoBits, CoversThatExceedTheBudgetAreWarnedOf) {
  Dataset data = test::make_small_dataset(300, 16, 5, 3);
  std::mt19937 random(5);
  std::vector<std::int64_t> sources(2500), targets(2500);
  for (auto* ends : {&sources, &targets}) {
    for (std::int64_t& node : *ends) node = random() % 300;
  }
  data.graph = make_graph(300, sources, targets);
  TrainOptions o = options_of(ModelKind::gcn, "", 2);
  o.model.dropout = 0;
  const std::int64_t boundary = row_bytes(train(data, o));
  o.exchange.rows = ExchangedRows::cover;
  const std::int64_t covers = row_bytes(train(data, o));
  ASSERT_GT(covers, boundary);
  for (const char* budget : {"auto", "auto:1"}) {
    o.exchange.auto_bits = budget;
    std::string said;
    TrainCallbacks callbacks;
    callbacks.log = [&](LogLevel, std::string_view line) { said += line; };
    EXPECT_EQ(row_bytes(train(data, o, callbacks)), covers);
    EXPECT_NE(said.find("exceeds its budget by " + std::to_string(covers - boundary) + " bytes"),
              std::string::npos)
        << said;
  }
}

TEST(AutoBits, RefuseABudgetBelowTheFewestBits) {
  const Dataset data = data_set();
  TrainOptions o = options_of(ModelKind::gcn, "auto:1kB", 2);
  test::expect_error(ErrorCode::usage, "rows 1000 bytes an epoch, but they take",
                     [&] { train(data, o); });
  o.partition.parts = 1;
  EXPECT_NO_THROW(train(data, o));
}

}  // namespace
}  // namespace heliograph
