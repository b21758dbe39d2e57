#include "staleness/stale_halo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include "comm/threads/transport.hpp"
#include "core/buffer.hpp"
#include "support/expect_error.hpp"
#include "support/faulty_communicator.hpp"
#include "support/graphs.hpp"
#include "support/recording_communicator.hpp"
#include "support/sites.hpp"

// Rows that travel hold the number of their epoch, so that what arrives shows its age.

namespace heliograph {
namespace {

constexpr int kLayers = 2;
constexpr std::int64_t kCols = 5;

struct Seen {
  int site;
  int epoch;
  int lag;
  std::set<float> values;  ///< Over all halo rows of the pass.
};

std::vector<Site> all_sites() {
  std::vector<Site> sites;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      sites.push_back(test::site(static_cast<int>(sites.size()), layer, direction, kCols));
    }
  }
  return sites;
}

/// Runs `epochs` epochs over `ranks` ranks and returns what every pass of every rank saw.
/// With `upwards`, the backward pass visits the lowest layer first.
std::vector<Seen> run(int ranks, const ExchangeOptions& options, int epochs,
                      const test::Faults& faults = {}, bool upwards = false) {
  const Graph graph = test::random_graph(60, 0.1, 4);
  const Partition partition = test::round_robin_partition(60, ranks);
  const NodeIndex index(graph, partition);
  std::vector<Seen> seen;
  std::mutex mutex;
  run_ranks(ranks, {{}, 20}, [&](Communicator& inner) {
    test::FaultyCommunicator comm(inner, faults);
    const Shard shard = build_shard(index, comm.rank(), nullptr);
    PhaseClock clock;
    Device device(1);
    const PlacedShard placed(shard, device, MemoryUse::graph, nullptr);
    const std::vector<Site> sites = all_sites();
    StaleHalo halo(comm, placed, ExchangePolicy(options, epochs, sites), sites, 3, 1, clock,
                   nullptr);
    Matrix rows(shard.inner_rows, kCols, MemoryUse::workspace, nullptr);
    for (int epoch = 0; epoch < epochs; ++epoch) {
      halo.begin_epoch({epoch});
      for (const Direction direction : {Direction::forward, Direction::backward}) {
        const bool forward = direction == Direction::forward;
        for (int place = 0; place < kLayers; ++place) {
          const int layer = forward || upwards ? place : kLayers - 1 - place;
          // Every value names its epoch, layer and direction; powers of two, so that any code
          // and bf16 hold a constant row exactly.
          const float value = static_cast<float>(1 + epoch) * 8 + static_cast<float>(layer) * 2 +
                              (forward ? 0.0F : 1.0F);
          for (std::int64_t r = 0; r < rows.view().rows; ++r) {
            std::fill_n(rows.view().row(r), kCols, value);
          }
          const Site& site =
              sites[2 * static_cast<std::size_t>(layer) + static_cast<std::size_t>(direction)];
          halo.open(site, {rows.view()});
          const std::int64_t block = 1 + comm.rank() * 5;  // Each rank has blocks of another size.
          for (std::int64_t at = 0; at == 0 || at < rows.view().rows; at += block) {
            halo.offer(site, {at, std::min(rows.view().rows, at + block)});
          }
          Seen s{site.id, epoch, epoch - static_cast<int>(halo.source_epoch(site, epoch)), {}};
          halo.finish(site, [&](const PackedRows& packed) {
            for (std::int64_t r = 0; r < packed.rows; ++r) {
              for (std::int64_t c = 0; c < kCols; ++c) {
                const float got = decode_value(packed.row(r), packed.format, packed.cols, c) -
                                  static_cast<float>(layer) * 2 - (forward ? 0.0F : 1.0F);
                s.values.insert(got / 8 - 1);
              }
            }
          });
          const std::lock_guard lock(mutex);
          seen.push_back(s);
        }
      }
    }
    halo.drain();
  });
  return seen;
}

ExchangeOptions exchange(int staleness, int sync_every, int warmup, int bits) {
  ExchangeOptions o;
  o.staleness = staleness;
  o.stale_sites = "all";
  o.sync_every = sync_every;
  o.warmup_epochs = warmup;
  o.bits_forward = o.bits_backward = Bits{bits};
  return o;
}

void expect_exact_ages(const std::vector<Seen>& seen, const ExchangeOptions& options) {
  const std::vector<Site> sites = all_sites();
  const ExchangePolicy policy(options, 100, sites);
  for (const Seen& s : seen) {
    ASSERT_EQ(s.lag, policy.of(sites[static_cast<std::size_t>(s.site)], {s.epoch}).lag);
    ASSERT_LE(s.lag, options.staleness);
    ASSERT_EQ(s.values, std::set<float>{static_cast<float>(s.epoch - s.lag)})
        << "epoch " << s.epoch << ", S = " << options.staleness;
  }
}

TEST(StaleHalo, ValuesHaveExactlyTheAgeOfTheSchedule) {
  for (const int bits : {1, 4, 16, 32}) {
    for (const int staleness : {0, 1, 2, 5}) {
      for (const int every : {0, 4}) {
        const ExchangeOptions options = exchange(staleness, every, staleness == 2 ? 3 : 0, bits);
        const std::vector<Seen> seen = run(3, options, 12);
        ASSERT_EQ(seen.size(), 3U * 12 * 2 * kLayers);
        expect_exact_ages(seen, options);
      }
    }
  }
}

TEST(StaleHalo, AgesDoNotDependOnTiming) {
  test::Faults faults;
  faults.delay_us = 300;
  faults.reorder = true;
  const ExchangeOptions options = exchange(2, 5, 0, 32);
  expect_exact_ages(run(4, options, 11, faults), options);
}

// Rows of sites that are late and of others arrive over the same links in one epoch.
TEST(StaleHalo, OnlyTheChosenSitesAreLate) {
  test::Faults faults;
  faults.delay_us = 100;
  faults.reorder = true;
  for (const char* sites :
       {"lowest-backward", "layers.1.forward", "layers.0.forward,layers.1.backward"}) {
    SCOPED_TRACE(sites);
    ExchangeOptions options = exchange(2, 5, 0, 8);
    options.stale_sites = sites;
    const std::vector<Seen> seen = run(3, options, 11, faults);
    expect_exact_ages(seen, options);
    std::set<int> ages;
    for (const Seen& s : seen) ages.insert(s.lag);
    EXPECT_EQ(ages, (std::set{0, 1, 2}));
  }
}

// Messages that are held back still leave before those that are sent after them.
TEST(StaleHalo, AgesDoNotDependOnTheOrderOfSites) {
  const ExchangeOptions options = exchange(1, 0, 0, 32);
  expect_exact_ages(run(3, options, 6, {}, true), options);
}

/// The buffers of one rank after an epoch whose layers are `cols` wide.
std::int64_t halo_bytes(int staleness, const std::vector<std::int64_t>& cols, int epochs,
                        int pieces = 1) {
  const Graph graph = test::random_graph(60, 0.1, 4);
  const Partition partition = test::round_robin_partition(60, 2);
  const NodeIndex index(graph, partition);
  std::int64_t rows_both_ways = 0, peak = 0;
  run_ranks(2, {{}, 20}, [&](Communicator& comm) {
    const Shard shard = build_shard(index, comm.rank(), nullptr);
    Device device(1);
    const PlacedShard placed(shard, device, MemoryUse::graph, nullptr);
    PhaseClock clock;
    MemoryAccount account;
    std::vector<Site> sites;
    for (const std::int64_t width : cols) {
      const int layer = static_cast<int>(sites.size());
      sites.push_back(test::site(layer, layer, Direction::forward, width));
    }
    StaleHalo halo(comm, placed, ExchangePolicy(exchange(staleness, 0, 0, 32), epochs, sites),
                   sites, pieces, 1, clock, &account);
    for (int epoch = 0; epoch < epochs; ++epoch) {
      halo.begin_epoch({epoch});
      for (const Site& site : sites) {
        const Matrix rows(shard.inner_rows, site.cols, MemoryUse::workspace, nullptr);
        halo.open(site, {rows.view()});
        halo.offer(site, {0, rows.view().rows});
        halo.finish(site, [](const PackedRows&) {});
      }
    }
    halo.drain();
    if (comm.rank() == 0) {
      rows_both_ways = shard.in.plan.send_rows() + shard.in.plan.halo_rows;
      peak = account.peak(MemoryUse::halo);
    }
  });
  EXPECT_GT(rows_both_ways, 0);
  EXPECT_EQ(peak % (4 * rows_both_ways), 0);
  return peak / (4 * rows_both_ways);  // in columns
}

/// `shard` with a partial sum in the place of each boundary row, as far as exchanges read it.
Shard with_sums(Shard shard) {
  shard.in.sums.emplace().plan = shard.in.plan;
  shard.in.sums->ids = shard.global_ids;
  return shard;
}

/// Rank 0 of two without the other: what it posts is recorded, and nothing arrives.
struct SingleRank {
  const Graph graph = test::random_graph(60, 0.1, 4);
  const Partition partition = test::round_robin_partition(60, 2);
  const Shard shard = with_sums(build_shard(NodeIndex(graph, partition), 0, nullptr));
  test::RecordingCommunicator comm{0, 2};
  Device device{1};
  const PlacedShard placed{shard, device, MemoryUse::graph, nullptr};
  PhaseClock clock;
  const Matrix rows{shard.inner_rows, kCols, MemoryUse::workspace, nullptr};

  StaleHalo halo(const ExchangeOptions& options, int epochs, const std::vector<Site>& sites) {
    return {comm, placed, ExchangePolicy(options, epochs, sites), sites, 1, 1, clock, nullptr};
  }
  void send(StaleHalo& halo, const Site& site) const {
    halo.open(site, {rows.view()});
    halo.offer(site, {0, rows.view().rows});
  }
};

TEST(StaleHalo, WhatAStaleEpochSendsLastWaitsForTheEndOfTheEpoch) {
  SingleRank rank;
  const std::vector<Site> sites{test::site(0, 0, Direction::forward, kCols),
                                test::site(1, 0, Direction::backward, kCols),
                                test::site(2, 1, Direction::backward, kCols)};
  StaleHalo halo = rank.halo(exchange(1, 0, 0, 32), 9, sites);
  const auto sent = [&] {
    return std::count_if(rank.comm.posts.begin(), rank.comm.posts.end(),
                         [](auto& p) { return p.sending; });
  };
  const auto pass = [&](std::size_t exchange) {
    const Site& site =
        sites[exchange == 0 ? 0 : 3 - exchange];  // The backward pass begins at the last site.
    rank.send(halo, site);
    halo.finish(site, [](const PackedRows&) {});
  };
  halo.begin_epoch({0});  // A synchronous epoch waits for its own halos.
  for (std::size_t e = 0; e < 3; ++e) {
    pass(e);
    EXPECT_EQ(sent(), static_cast<std::int64_t>(e) + 1);
  }
  for (int epoch = 1; epoch < 4; ++epoch) {
    halo.begin_epoch({epoch});
    for (std::size_t e = 0; e < 3; ++e) pass(e);
    EXPECT_EQ(sent(), 3 * epoch + 2);
    if (epoch == 1) halo.release();
    if (epoch == 2) halo.begin_epoch({epoch});
    if (epoch == 3) halo.drain();
    EXPECT_EQ(sent(), 3 * epoch + 3) << epoch;
  }
}

TEST(StaleHalo, PartialSumsOfTheLastExchangeWaitWithItsRows) {
  SingleRank rank;
  std::vector<Site> sites{test::site(0, 0, Direction::backward, kCols),
                          test::site(1, 0, Direction::backward, kCols)};
  sites[1].partial_sums = true;
  sites[0].sums = std::make_shared<const Site>(sites[1]);
  StaleHalo halo = rank.halo(exchange(1, 0, 0, 32), 9, sites);
  const auto sent = [&] {
    return std::count_if(rank.comm.posts.begin(), rank.comm.posts.end(),
                         [](auto& p) { return p.sending; });
  };
  halo.begin_epoch({0});
  for (const Site& site : sites) rank.send(halo, site);
  EXPECT_EQ(sent(), 2);
  halo.begin_epoch({1});
  for (const Site& site : sites) rank.send(halo, site);
  EXPECT_EQ(sent(), 2) << "neither the rows nor the sums may leave before the epoch ends";
  halo.release();
  EXPECT_EQ(sent(), 4);
}

TEST(StaleHalo, HoldsNothingBeforeTheFirstExchange) {
  SingleRank rank;
  const std::vector<Site> sites{test::site(0, 0, Direction::forward, kCols)};
  StaleHalo halo = rank.halo(exchange(2, 0, 0, 32), 9, sites);
  const auto finish = [&] { halo.finish(sites[0], [](const PackedRows&) {}); };
  EXPECT_TRUE(halo.received(0, -1).empty());
  EXPECT_EQ(halo.bytes_sent(Direction::forward), 0);
  test::expect_error(ErrorCode::usage, "holds no rows of this exchange", finish);
  // An epoch fills its own slot and no other: the second reads the rows of the first.
  for (const int epoch : {0, 1}) {
    halo.begin_epoch({epoch});
    rank.send(halo, sites[0]);
    EXPECT_NO_THROW(finish()) << epoch;
  }
  EXPECT_EQ(halo.received(0, 1).size(), 2u);
  halo.begin_epoch({4});  // Its lag is 2, and epoch 2 has not run.
  test::expect_error(ErrorCode::usage, "holds no rows of this exchange", finish);
}

// Gradients that arrive late were computed from rows that had arrived late, which the owner still
// has as it sent them.
TEST(StaleHalo, KeepsSentRowsForAsLongAsGradientsComputedFromThemArrive) {
  const Graph graph = test::random_graph(60, 0.1, 4);
  const Partition partition = test::round_robin_partition(60, 3);
  const Shard shard = build_shard(NodeIndex(graph, partition), 0, nullptr);
  test::RecordingCommunicator comm(0, 3);
  Device device(1);
  const PlacedShard placed(shard, device, MemoryUse::graph, nullptr);
  PhaseClock clock;
  std::vector<Site> sites{test::site(0, 0, Direction::forward, kCols),
                          test::site(1, 0, Direction::backward, kCols)};
  sites[0].exact_cols = 3;
  sites[0].keeps_sent = true;
  std::set<std::int32_t> boundary;
  for (const HaloPlan::Peer& peer : shard.adjacency(Direction::forward).plan.peers) {
    boundary.insert(peer.sent.begin(), peer.sent.end());
  }
  for (const int bits : {32, 1}) {
    for (const int staleness : {0, 1, 3}) {
      StaleHalo halo(comm, placed, ExchangePolicy(exchange(staleness, 5, 2, bits), 40, sites),
                     sites, 5, 1, clock, nullptr);
      std::int64_t oldest = 0;
      for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
        halo.begin_epoch({epoch});
        // What a checkpoint before this epoch would hold.
        std::vector<std::int64_t> saved;
        for (const auto& held : halo.kept_before(epoch)) saved.push_back(held.epoch);
        for (const Site& site : sites) {
          Matrix rows(shard.inner_rows, kCols, MemoryUse::workspace, nullptr);
          Matrix exact(shard.inner_rows, site.exact_cols, MemoryUse::workspace, nullptr);
          for (std::int64_t r = 0; r < shard.inner_rows; ++r) {
            std::fill_n(rows.view().row(r), kCols, static_cast<float>(1 + epoch));
            std::fill_n(exact.view().row(r), site.exact_cols, static_cast<float>(100 * epoch + r));
          }
          halo.open(site, {rows.view(), nullptr, exact.view()});
          halo.offer(site, {0, shard.inner_rows});
          halo.finish(site, [](const PackedRows&) {});
        }
        const std::int64_t used = halo.source_epoch(sites[0], halo.source_epoch(sites[0], epoch));
        oldest = std::max(oldest, epoch - used);
        ASSERT_EQ(static_cast<std::int64_t>(saved.size()), epoch - used);
        EXPECT_TRUE(saved.empty() || saved.front() == used);
        const KeptRows kept = halo.kept(sites[0], used);
        EXPECT_EQ(halo.kept(sites[1], used).packed.rows, 0);
        if (staleness == 0 && bits == 32) {
          EXPECT_EQ(kept.packed.rows, 0);
          continue;
        }
        std::set<std::int32_t> nodes;
        for (std::int64_t r = 0; r < kept.packed.rows; ++r) {
          const std::int32_t node = kept.nodes[r];
          if (node < 0) continue;
          EXPECT_TRUE(nodes.insert(node).second);
          EXPECT_EQ(decode_value(kept.packed.row(r), kept.packed.format, kCols, kCols - 1),
                    static_cast<float>(1 + used));
          EXPECT_EQ(kept.packed.exact(r, 2), static_cast<float>(100 * used + node));
        }
        EXPECT_EQ(nodes, boundary);
      }
      EXPECT_EQ(oldest, std::min(2 * staleness, 4));  // Every fifth epoch is synchronous.
    }
  }
}

TEST(StaleHalo, SynchronousLayersShareTheWidestOnesBuffers) {
  EXPECT_EQ(halo_bytes(0, {3, 8, 5}, 4), 8);
  EXPECT_EQ(halo_bytes(0, {3, 8, 5}, 4, 3), 2 * 8) << "of two sites at a time";
  EXPECT_EQ(halo_bytes(1, {3, 8, 5}, 4), 2 * (3 + 8 + 5));
  EXPECT_EQ(halo_bytes(3, {3, 8, 5}, 6), 4 * (3 + 8 + 5));
}

TEST(StaleHalo, AFailedCallEndsEveryRankWithItsError) {
  test::Faults faults;
  faults.fail_on_call = 9;
  EXPECT_THROW(run(3, exchange(1, 0, 0, 1), 6, faults), Error);
}

}  // namespace
}  // namespace heliograph
