#include "graph/covers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <string>
#include <vector>

#include "comm/exchange/setup_exchange.hpp"
#include "comm/threads/transport.hpp"
#include "heliograph/error.hpp"
#include "heliograph/train.hpp"
#include "layers/graph_operator.hpp"
#include "staleness/stale_halo.hpp"
#include "support/expect_error.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "support/sites.hpp"
#include "support/steps.hpp"
#include "train/plan/dataset_plan.hpp"

namespace heliograph {
namespace {

using ::testing::HasSubstr;

TrainOptions covering(ModelKind kind, int ranks, int epochs) {
  TrainOptions o = test::small_options(ranks, epochs);
  o.model.kind = kind;
  o.model.layers = 3;
  o.model.dropout = 0.3F;
  o.partition.partitioner = Partitioner::random;
  o.exchange.rows = ExchangedRows::cover;
  return o;
}

class CoveredModel : public ::testing::TestWithParam<ModelKind> {};

TEST_P(CoveredModel, MakesTheStepsOfOneRank) {
  const Dataset plain = test::make_small_dataset(200, 20, 5, 3);
  const Dataset directed = test::make_small_dataset(200, 20, 5, 3, false, false, true);
  const std::vector<Dataset> all{plain, directed, test::with_weights(directed)};
  for (const Dataset& data : all) {
    for (const bool inductive : {false, true}) {
      TrainOptions o = covering(GetParam(), 1, 6);
      o.inductive = inductive;
      o.exchange.rows = ExchangedRows::boundary;
      const auto expected = test::run_steps(data, o, {}, nullptr);
      o.exchange.rows = ExchangedRows::cover;
      for (const int ranks : {2, 4, 7}) {
        SCOPED_TRACE(::testing::Message() << ranks << ' ' << inductive);
        o.partition.parts = ranks;
        test::expect_near(test::run_steps(data, o, {}, &expected), expected, 1e-5, 1e-5);
      }
    }
  }
}

TEST_P(CoveredModel, MakesTheLateStepsOfBoundaries) {
  const Dataset data = test::make_small_dataset(200, 20, 5, 3);
  for (const int staleness : {1, 3}) {
    TrainOptions o = covering(GetParam(), 4, 8);
    o.exchange.staleness = staleness;
    o.exchange.sync_every = 5;
    o.exchange.rows = ExchangedRows::boundary;
    const auto expected = test::run_steps(data, o, {}, nullptr);
    o.exchange.rows = ExchangedRows::cover;
    // Late rows come from earlier steps, which no common weights correct.
    test::expect_near(test::run_steps(data, o, {}, &expected), expected, 1e-5, 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CoveredModel,
                         ::testing::Values(ModelKind::gcn, ModelKind::sage, ModelKind::gin,
                                           ModelKind::appnp, ModelKind::dagnn, ModelKind::jknet,
                                           ModelKind::gcnii),
                         [](const auto& p) { return test::name_of(p.param); });

/// Sums of neighbours over `ranks` ranks, of nonnegative rows, in each of `epochs` epochs.
std::vector<std::vector<double>> sums_of_neighbours(int ranks, Bits bits, int epochs) {
  constexpr std::int64_t cols = 24;
  const Graph graph = test::random_graph(30, 0.2, 4);
  const Partition partition = test::round_robin_partition(30, ranks);
  const NodeIndex index(graph, partition);
  const Covers covers(index, nullptr, 1);
  std::vector<std::vector<double>> means(30, std::vector<double>(cols, 0.0));
  std::mutex mutex;
  run_ranks(ranks, {{}, 20}, [&](Communicator& comm) {
    Shard whole = build_shard(index, comm.rank(), nullptr);
    covers.mark(whole);
    const auto ids = exchange_numbers(comm, whole.in.plan, whole.global_ids);
    const Shard shard = cover_halos(std::move(whole), ids, {});
    const auto kernels = make_cpu_kernels(1, false, nullptr);
    const PlacedShard placed(shard, kernels->device(), MemoryUse::graph, nullptr);
    GraphOperator op(placed, *kernels, {DegreeScale::inverse_root, DegreeScale::inverse_root, 1.0F},
                     MemoryUse::graph, nullptr);
    op.reserve_sums(cols, MemoryUse::graph, nullptr);
    Site rows_site = test::site(0, 0, Direction::forward, cols, true);
    Site sums_site = rows_site;
    sums_site.id = 1;
    sums_site.key += 1;
    sums_site.partial_sums = true;
    rows_site.sums = std::make_shared<const Site>(sums_site);
    const std::vector<Site> sites{rows_site, sums_site};
    ExchangeOptions exchange;
    exchange.bits_forward = bits;
    PhaseClock clock;
    StaleHalo halo(comm, placed, ExchangePolicy(exchange, epochs, sites), sites, 2, 1, clock,
                   nullptr);
    Matrix x(shard.inner_rows, cols, MemoryUse::workspace, nullptr);
    Matrix y(shard.inner_rows, cols, MemoryUse::workspace, nullptr);
    for (std::int64_t r = 0; r < shard.inner_rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const auto v = shard.global_ids[static_cast<std::size_t>(r)];
        x.view().row(r)[c] = static_cast<float>((7 * v + 3 * c) % 11) / 11;
      }
    }
    for (int epoch = 0; epoch < epochs; ++epoch) {
      halo.begin_epoch({epoch});
      const PassContext pass{*kernels, halo, clock, {epoch}, 1};
      const std::int64_t half = shard.inner_rows / 2;
      op.offer(pass, sites[0], x.view(), {0, half});
      op.offer(pass, sites[0], x.view(), {half, shard.inner_rows});
      op.begin_sum(pass, sites[0], x.view(), y.view(), {}, [] {});
      op.add_halo(pass, sites[0], y.view(), {0, half});
      op.add_halo(pass, sites[0], y.view(), {half, shard.inner_rows});
      const std::lock_guard lock(mutex);
      for (std::int64_t r = 0; r < shard.inner_rows; ++r) {
        auto& mean = means[static_cast<std::size_t>(shard.global_ids[static_cast<std::size_t>(r)])];
        for (std::size_t c = 0; c < mean.size(); ++c) {
          mean[c] += static_cast<double>(y.view().row(r)[c]) / epochs;
        }
      }
    }
    halo.drain();
  });
  return means;
}

TEST(CoveredSums, OfOneBitAreUnbiased) {
  const auto exact = sums_of_neighbours(3, Bits::fp32, 1);
  const auto one = sums_of_neighbours(3, Bits::one, 1);
  const auto mean = sums_of_neighbours(3, Bits::one, 1000);
  double noise = 0, bias = 0;
  for (std::size_t v = 0; v < exact.size(); ++v) {
    for (std::size_t c = 0; c < exact[v].size(); ++c) {
      noise += std::pow(one[v][c] - exact[v][c], 2);
      bias += std::pow(mean[v][c] - exact[v][c], 2);
    }
  }
  EXPECT_GT(noise, 0.1);
  // The mean of 1000 independent draws has a thousandth of the variance.
  EXPECT_LT(bias, 2 * noise / 1000);
}

TEST(CoveredRun, ReportsWhatItSends) {
  const Dataset data = test::make_small_dataset(300, 24, 3, 3);
  TrainOptions o = covering(ModelKind::gcn, 4, 2);
  const TrainResult covered = train(data, o);
  ASSERT_TRUE(covered.covers);
  EXPECT_LT(covered.covers->rows + covered.covers->sums, covered.covers->boundary_rows);
  o.exchange.rows = ExchangedRows::boundary;
  const TrainResult boundary = train(data, o);
  EXPECT_FALSE(boundary.covers);
  EXPECT_EQ(covered.fp32_bytes_per_epoch, boundary.fp32_bytes_per_epoch);
  const auto bytes = [](const TrainResult& r) {
    return r.bytes_per_epoch.halo_forward + r.bytes_per_epoch.halo_backward;
  };
  EXPECT_EQ(bytes(boundary) / covered.covers->boundary_rows *
                (covered.covers->rows + covered.covers->sums),
            bytes(covered));
  std::int64_t sums = 0, all = 0;
  for (const LinkTraffic& link : covered.halo_traffic) {
    all += link.bytes;
    if (covered.sites[static_cast<std::size_t>(link.site)].name.ends_with(".sums")) {
      sums += link.bytes;
    }
  }
  EXPECT_EQ(all, 2 * bytes(covered));
  EXPECT_EQ(sums * (covered.covers->rows + covered.covers->sums), all * covered.covers->sums);
}

TEST(CoveredRun, CountsBoundaryRowsOfLinksThatCarrySumsAlone) {
  Dataset data = test::make_small_dataset(40, 8, 3, 3);
  data.graph = test::star_graph(40);
  const TrainResult result = train(data, covering(ModelKind::gcn, 2, 2));
  // The rank without the hub sends the sum of its leaves and no row.
  EXPECT_EQ(result.covers->rows, 1);
  EXPECT_EQ(result.covers->sums, 1);
  std::int64_t fp32 = 0;
  for (const LinkTraffic& link : result.halo_traffic) fp32 += link.fp32_bytes;
  EXPECT_EQ(fp32, 2 * result.fp32_bytes_per_epoch);
}

TEST(CoveredRun, NeedsNoAttentionAndNoReproducibleSums) {
  const Dataset data = test::make_small_dataset(100, 8, 3, 3);
  TrainOptions o = covering(ModelKind::gat, 2, 1);
  test::expect_error(ErrorCode::usage, {"exchange cover is not for attention"},
                     [&] { train(data, o); });
  o.exchange.rows = ExchangedRows::automatic;
  EXPECT_FALSE(train(data, o).covers);
  o = covering(ModelKind::gcn, 2, 1);
  o.reproducible = true;
  test::expect_error(ErrorCode::usage, {"exchange cover cannot be combined with", "reproducible"},
                     [&] { train(data, o); });
  o.exchange.rows = ExchangedRows::automatic;
  EXPECT_FALSE(train(data, o).covers);
}

TEST(CoveredRun, TellsWhatAutomaticTook) {
  const Dataset data = test::make_small_dataset(100, 8, 3, 3);
  TrainOptions o = covering(ModelKind::gcn, 2, 1);
  std::string lines;
  TrainCallbacks callbacks;
  callbacks.log = [&](LogLevel, std::string_view text) { lines.append(text).append("\n"); };
  train(data, o, callbacks);
  EXPECT_THAT(lines, HasSubstr("covers: an exchange sends "));
  lines.clear();
  o.exchange.rows = ExchangedRows::automatic;
  train(data, o, callbacks);
  EXPECT_THAT(lines, HasSubstr("boundary rows, since with covers an exchange sends "));
}

TEST(CoveredRun, AutomaticWeighsRowsAgainstSums) {
  TrainOptions o = covering(ModelKind::gcn, 2, 1);
  o.exchange.rows = ExchangedRows::automatic;
  const auto chosen = [&](const CoverCounts& counts) {
    return choose_exchange(o, &counts, 2).covers;
  };
  EXPECT_TRUE(chosen({1000, 300, 150, 900}));
  EXPECT_FALSE(chosen({1000, 400, 150, 900}));
  // At 32 bits and 1 Gbit/s, 50 rows save 0.8 us a column on either link.
  o.transport.link_gbps = 1;
  EXPECT_TRUE(chosen({1000, 600, 350, 1500}));
  EXPECT_FALSE(chosen({1000, 600, 350, 1700}));
}

}  // namespace
}  // namespace heliograph
