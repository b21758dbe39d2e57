#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/noise.hpp"
#include "heliograph/partition.hpp"
#include "heliograph/train.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "train/plan/exchange_cost.hpp"

// Which columns travel changes bytes and nothing else.

namespace heliograph {
namespace {

TrainOptions options_of(ModelKind kind, int ranks) {
  TrainOptions o = test::small_options(ranks, 5);
  o.model.kind = kind;
  o.model.layers = 3;
  o.model.hidden = 40;
  o.model.dropout = 0.4F;
  o.partition.partitioner = Partitioner::random;
  return o;
}

class KeptColumnsOf : public ::testing::TestWithParam<ModelKind> {};

TEST_P(KeptColumnsOf, ChangeBytesAlone) {
  const Dataset plain = test::make_small_dataset(150, 20, 5, 3);
  const Dataset directed = test::make_small_dataset(150, 20, 5, 3, false, false, true);
  int fewer = 0;
  for (const auto& [bits, staleness, ranks] :
       {std::tuple{Bits::one, 0, 4}, {Bits::two, 2, 3}, {Bits::fp32, 0, 2}, {Bits::bf16, 1, 7}}) {
    for (const ExchangedRows rows : {ExchangedRows::boundary, ExchangedRows::cover}) {
      SCOPED_TRACE(::testing::Message()
                   << bit_count(bits) << " bits, S = " << staleness << ", " << ranks
                   << " ranks, covers " << (rows == ExchangedRows::cover));
      TrainOptions o = options_of(GetParam(), ranks);
      o.exchange.bits_forward = o.exchange.bits_backward = bits;
      o.exchange.staleness = staleness;
      o.exchange.sync_every = staleness > 0 ? 3 : 0;
      o.exchange.rows = rows;
      const Dataset& data = ranks == 4 ? directed : plain;
      const TrainResult all = train(data, o);
      o.exchange.kept_columns = true;
      const TrainResult kept = train(data, o);
      test::expect_same_numbers(kept, all);
      EXPECT_LE(kept.bytes_per_epoch.total(), all.bytes_per_epoch.total());
      if (kept.bytes_per_epoch.total() < all.bytes_per_epoch.total()) ++fewer;
    }
  }
  // Rows of these models are not what dropout leaves: they hop from logits, or are signed.
  const bool never = GetParam() == ModelKind::appnp || GetParam() == ModelKind::dagnn;
  EXPECT_EQ(fewer, never ? 0 : 8);
}

INSTANTIATE_TEST_SUITE_P(Models, KeptColumnsOf,
                         ::testing::Values(ModelKind::gcn, ModelKind::sage, ModelKind::gin,
                                           ModelKind::appnp, ModelKind::dagnn, ModelKind::jknet,
                                           ModelKind::gcnii),
                         [](const auto& p) { return test::name_of(p.param); });

TEST(KeptColumns, BytesAreThoseOfTheMasks) {
  const Dataset data = test::make_small_dataset(150, 20, 5, 3);
  TrainOptions o = options_of(ModelKind::gcn, 3);
  o.exchange.bits_forward = Bits::two;
  o.exchange.bits_backward = Bits::four;
  o.exchange.kept_columns = true;
  const TrainResult r = train(data, o);
  const Partition partition = make_partition(data.graph, o.partition);
  std::set<std::pair<std::int64_t, int>> sent;  // A node and the rank that needs its row.
  for (std::int64_t v = 0; v < data.graph.nodes; ++v) {
    const auto at = static_cast<std::size_t>(v);
    for (auto e = data.graph.offsets[at]; e < data.graph.offsets[at + 1]; ++e) {
      const NodeId u = data.graph.neighbours[static_cast<std::size_t>(e)];
      const int owner = partition.owner[static_cast<std::size_t>(v)];
      if (owner != partition.owner[static_cast<std::size_t>(u)]) sent.emplace(u, owner);
    }
  }
  const auto threshold = static_cast<std::uint32_t>(0.4F * 65536 + 0.5F);
  for (const EpochReport& epoch : r.epochs) {
    // Layer 1 sums the 40 hidden values of layer 0 after ReLU and dropout; layer 2 sends 5 columns
    // of x W. Gradients travel whole: 40 and 5 columns.
    std::int64_t forward = 0;
    const std::uint64_t stream =
        stream_key(o.seed, Purpose::dropout, {epoch.epoch}, site_key(1, Direction::forward));
    for (const auto& [node, rank] : sent) {
      std::int64_t kept = 0;
      for (std::uint32_t c = 0; c < 40; ++c) {
        kept += noise16(row_key(stream, static_cast<std::uint64_t>(node)), c) >= threshold ? 1 : 0;
      }
      forward += 2 + (2 * kept + 7) / 8 + 4 + (2 * 5 + 7) / 8;
    }
    EXPECT_EQ(epoch.bytes.halo_forward, forward);
    EXPECT_EQ(epoch.bytes.halo_backward,
              static_cast<std::int64_t>(sent.size()) * (4 + 20 + 4 + (4 * 5 + 7) / 8));
  }
}

TEST(KeptColumns, TravelWhereAutomaticSaysThatTheyCostLess) {
  const Dataset data = test::make_small_dataset(60, 20, 5, 3);
  TrainOptions o = options_of(ModelKind::gcn, 3);
  const auto keeps = [&](Bits bits, double gbps) {
    o.exchange.bits_forward = bits;
    o.transport.link_gbps = gbps;
    return choose_exchange(o, nullptr, 3).kept_columns;
  };
  EXPECT_FALSE(keeps(Bits::one, 0)) << "boundary";
  o.exchange.rows = ExchangedRows::automatic;
  EXPECT_TRUE(keeps(Bits::one, 0));
  EXPECT_TRUE(keeps(Bits::four, 0));
  EXPECT_FALSE(keeps(Bits::eight, 0));
  // With 2 links of a rank, 1 bit saves 0.4 / 2 ns a value at 1 Gbit/s, and 32 bits save 6.4 ns.
  EXPECT_TRUE(keeps(Bits::one, 0.15));
  EXPECT_FALSE(keeps(Bits::one, 0.25));
  EXPECT_TRUE(keeps(Bits::fp32, 0.6));
  EXPECT_FALSE(keeps(Bits::fp32, 0.7));
  o.model.dropout = 0;
  EXPECT_FALSE(keeps(Bits::one, 0));

  o.model.dropout = 0.4F;
  for (const Bits bits : {Bits::one, Bits::fp32}) {
    keeps(bits, 0);
    std::string lines;
    TrainCallbacks callbacks;
    callbacks.log = [&](LogLevel, std::string_view text) { lines.append(text).append("\n"); };
    const TrainResult automatic = train(data, o, callbacks);
    TrainOptions asked = o;
    asked.exchange.rows = automatic.covers ? ExchangedRows::cover : ExchangedRows::boundary;
    asked.exchange.kept_columns = bits == Bits::one;
    const TrainResult same = train(data, asked);
    EXPECT_EQ(automatic.kept_columns, asked.exchange.kept_columns);
    EXPECT_EQ(lines.find("kept columns: ") != std::string::npos, asked.exchange.kept_columns);
    EXPECT_EQ(automatic.bytes_per_epoch.total(), same.bytes_per_epoch.total());
    EXPECT_EQ(automatic.epochs.back().loss, same.epochs.back().loss);
    const Partition partition = make_partition(data.graph, o.partition);
    EXPECT_EQ(exchange_costs(data, partition, o, nullptr, {&o.exchange, 1})[0].choice.kept_columns,
              asked.exchange.kept_columns);
  }
}

TEST(KeptColumns, ThatLeaveNothingOutAreNamed) {
  const Dataset data = test::make_small_dataset(60, 20, 5, 3);
  const auto expect = [&](TrainOptions o, bool warns) {
    o.exchange.kept_columns = true;
    std::string warnings;
    TrainCallbacks callbacks;
    callbacks.log = [&](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) warnings += text;
    };
    train(data, o, callbacks);
    EXPECT_EQ(warnings.find("kept-columns leaves nothing out") != std::string::npos, warns)
        << test::name_of(o.model.kind) << ", " << o.model.dropout << ": " << warnings;
  };
  for (const auto& [kind, dropout, warns] : {std::tuple{ModelKind::gcn, 0.0F, true},
                                             {ModelKind::gcn, 0.4F, false},
                                             {ModelKind::gat, 0.4F, true}}) {
    TrainOptions o = options_of(kind, 2);
    o.model.dropout = dropout;
    o.model.heads = kind == ModelKind::gat ? 2 : o.model.heads;
    expect(o, warns);
  }
  // Partial sums of gradients have columns that are dropped; late ones travel whole.
  TrainOptions o = options_of(ModelKind::gcn, 2);
  o.model.dropout = 0.4F;
  o.model.activation = ActivationFunction::gelu;
  o.exchange.rows = ExchangedRows::cover;
  o.exchange.staleness = 1;
  o.exchange.stale_sites = "all";
  expect(o, true);
  o.exchange.bits_forward = o.exchange.bits_backward = Bits::one;
  o.exchange.bits_policy = BitsPolicy::trend;  // It ends lag where bits rise.
  expect(o, false);
}

}  // namespace
}  // namespace heliograph
