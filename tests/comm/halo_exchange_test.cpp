#include "comm/exchange/halo_exchange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "comm/exchange/exact_halo.hpp"
#include "comm/threads/transport.hpp"
#include "support/graphs.hpp"
#include "support/sites.hpp"

namespace heliograph {
namespace {

constexpr int kNodes = 30;
constexpr std::int64_t kCols = 37;

/// Runs body(comm, shard) on every rank of a random graph that is dealt out round robin.
template <class Body>
void with_shards(int ranks, bool directed, Body body) {
  const Graph graph = test::random_graph(kNodes, 0.2, 4, directed);
  const std::optional<Graph> transposed =
      directed ? std::optional<Graph>(transpose(graph)) : std::nullopt;
  const Partition partition = test::round_robin_partition(kNodes, ranks);
  const NodeIndex index(graph, partition);
  run_ranks(ranks, {{}, 20}, [&](Communicator& comm) {
    const Shard shard = build_shard(index, comm.rank(), transposed ? &*transposed : nullptr);
    body(comm, shard);
  });
}

/// The row of global node v has the values v + column / 64, which are exact in fp32.
Matrix rows_by_node(const Shard& shard, std::int64_t cols) {
  Matrix m(shard.inner_rows, cols, MemoryUse::workspace, nullptr);
  for (std::int64_t r = 0; r < m.view().rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      m.view().row(r)[c] = static_cast<float>(shard.global_ids[static_cast<std::size_t>(r)]) +
                           static_cast<float>(c) / 64.0F;
    }
  }
  return m;
}

/// The row of global node v has the values -v - column / 64.
Matrix exact_by_node(const Shard& shard, std::int64_t cols) {
  Matrix m = rows_by_node(shard, cols);
  for (std::int64_t r = 0; r < m.view().rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) m.view().row(r)[c] *= -1;
  }
  return m;
}

TEST(HaloExchange, CountsTheBytesThatTheTransportTook) {
  for (const RowFormat format : {RowFormat{1, true}, RowFormat{1, false}, RowFormat{2, true},
                                 RowFormat{16, false}, RowFormat{32, false}}) {
    with_shards(3, false, [&](Communicator& comm, const Shard& shard) {
      Device device(1);
      const PlacedShard placed(shard, device, MemoryUse::graph, nullptr);
      PhaseClock clock;
      const auto codec = make_cpu_codec(format);
      const Matrix rows = rows_by_node(shard, kCols);
      const SendSchedule schedule(shard.in.plan, comm.rank(), comm.size(), true);
      HaloSlot slots[] = {{comm, Channel::halo, device, MemoryUse::halo, nullptr},
                          {comm, Channel::halo, device, MemoryUse::halo, nullptr}};
      HaloExchange exchange(comm, placed, shard.in.plan, schedule,
                            test::site(0, 0, Direction::forward, kCols), 1);
      for (int epoch = 0; epoch < 3; ++epoch) {
        test::start(exchange, slots[epoch % 2], *codec, epoch, {rows.view()}, clock);
        EXPECT_EQ(exchange.bytes_sent(), comm.bytes_sent(Channel::halo));
      }
      for (HaloSlot& slot : slots) {
        slot.wait_for_receives();
        slot.wait_for_sends();
      }
      EXPECT_EQ(exchange.bytes_sent(),
                3 * static_cast<std::int64_t>(format.row_bytes(kCols)) * shard.in.plan.send_rows());
      EXPECT_EQ(exchange.fp32_bytes_sent(), 3 * 4 * kCols * shard.in.plan.send_rows());
      EXPECT_GT(exchange.bytes_sent(), 0);
    });
  }
}

TEST(HaloExchange, ExactColumnsTravelBesideTheCodes) {
  with_shards(3, false, [&](Communicator& comm, const Shard& shard) {
    Device device(1);
    const PlacedShard placed(shard, device, MemoryUse::graph, nullptr);
    PhaseClock clock;
    const auto codec = make_cpu_codec({2, true, 3});
    const Matrix rows = rows_by_node(shard, kCols);
    const Matrix exact = exact_by_node(shard, 3);
    const SendSchedule schedule(shard.in.plan, comm.rank(), comm.size(), true);
    HaloSlot slot(comm, Channel::halo, device, MemoryUse::halo, nullptr);
    Site site = test::site(0, 0, Direction::forward, kCols);
    site.exact_cols = 3;
    HaloExchange exchange(comm, placed, shard.in.plan, schedule, site, 1);
    test::start(exchange, slot, *codec, 0, {rows.view(), nullptr, exact.view()}, clock);
    const PackedRows packed = exchange.finish(slot, {}, clock);
    ASSERT_EQ(packed.rows, shard.in.plan.halo_rows);
    for (std::int64_t r = 0; r < packed.rows; ++r) {
      const float node = -packed.exact(r, 0);
      EXPECT_EQ(packed.exact(r, 2), -node - 2.0F / 64.0F);
      // The row beside it is of the same node: its values lie in [node, node + 1).
      EXPECT_NEAR(decode_value(packed.row(r), packed.format, kCols, 5), node, 1.0F);
    }
    EXPECT_EQ(exchange.bytes_sent(), comm.bytes_sent(Channel::halo));
    EXPECT_EQ(exchange.fp32_bytes_sent(), 4 * (kCols + 3) * shard.in.plan.send_rows());
    slot.wait_for_sends();
  });
}

// Every group holds two values half a unit apart, which 1 bit of a range of the whole row would
// round.
TEST(HaloExchange, GroupsTravelWithParametersOfTheirOwn) {
  constexpr int kGroups = 4;
  constexpr std::int64_t kWidth = 9;
  with_shards(3, false, [&](Communicator& comm, const Shard& shard) {
    Device device(1);
    const PlacedShard placed(shard, device, MemoryUse::graph, nullptr);
    PhaseClock clock;
    const RowFormat format{1, true, 2, kGroups};
    const auto codec = make_cpu_codec(format);
    Matrix rows(shard.inner_rows, kGroups * kWidth, MemoryUse::workspace, nullptr);
    for (std::int64_t r = 0; r < rows.view().rows; ++r) {
      for (std::int64_t c = 0; c < kGroups * kWidth; ++c) {
        rows.view().row(r)[c] =
            static_cast<float>(shard.global_ids[static_cast<std::size_t>(r)] * 8 % 64 +
                               c / kWidth) +
            (c % kWidth == 3 ? 0.5F : 0.0F);
      }
    }
    const Matrix exact = exact_by_node(shard, 2);
    const SendSchedule schedule(shard.in.plan, comm.rank(), comm.size(), true);
    HaloSlot slot(comm, Channel::halo, device, MemoryUse::halo, nullptr);
    Site site = test::site(0, 0, Direction::forward, kGroups * kWidth);
    site.exact_cols = 2;
    site.groups = kGroups;
    HaloExchange exchange(comm, placed, shard.in.plan, schedule, site, 1);
    test::start(exchange, slot, *codec, 0, {rows.view(), nullptr, exact.view()}, clock);
    const PackedRows packed = exchange.finish(slot, {}, clock);
    ASSERT_EQ(packed.rows, shard.in.plan.halo_rows);
    for (std::int64_t r = 0; r < packed.rows; ++r) {
      const auto node = static_cast<std::int64_t>(-packed.exact(r, 0));
      for (std::int64_t c = 0; c < kGroups * kWidth; ++c) {
        const float expected =
            static_cast<float>(node * 8 % 64 + c / kWidth) + (c % kWidth == 3 ? 0.5F : 0.0F);
        EXPECT_EQ(decode_value(packed.row(r), format, packed.cols, c), expected);
      }
    }
    // Each group has 4 bytes of parameters and 2 of codes.
    EXPECT_EQ(exchange.bytes_sent(), (kGroups * 6 + 8) * shard.in.plan.send_rows());
    EXPECT_EQ(exchange.bytes_sent(), comm.bytes_sent(Channel::halo));
    EXPECT_EQ(exchange.fp32_bytes_sent(), 4 * (kGroups * kWidth + 2) * shard.in.plan.send_rows());
    slot.wait_for_sends();
  });
}

// One bit of 0.25 between 0 and 1. If the noise were the same every time, so would be the bits.
TEST(HaloExchange, RoundingIsFreshInEveryEpochLayerAndDirectionAndRight) {
  with_shards(2, false, [](Communicator& comm, const Shard& shard) {
    Device device(1);
    const PlacedShard placed(shard, device, MemoryUse::graph, nullptr);
    PhaseClock clock;
    const auto codec = make_cpu_codec({1, true});
    const SendSchedule schedule(shard.in.plan, comm.rank(), comm.size(), true);
    Matrix rows(shard.inner_rows, kCols, MemoryUse::workspace, nullptr);
    for (std::int64_t r = 0; r < rows.view().rows; ++r) {
      std::fill_n(rows.view().row(r), kCols, 0.25F);
      rows.view().row(r)[0] = 0;
      rows.view().row(r)[1] = 1;
    }
    std::set<std::vector<float>> seen;
    double sum = 0;
    constexpr int kEpochs = 100;
    for (int pass = 0; pass < 4; ++pass) {
      const auto direction = pass % 2 == 0 ? Direction::forward : Direction::backward;
      HaloSlot slot(comm, Channel::halo, device, MemoryUse::halo, nullptr);
      HaloExchange exchange(comm, placed, shard.in.plan, schedule,
                            test::site(pass, pass / 2, direction, kCols), 1);
      for (int epoch = 0; epoch < kEpochs; ++epoch) {
        test::start(exchange, slot, *codec, epoch, {rows.view()}, clock);
        const PackedRows packed = exchange.finish(slot, {}, clock);
        std::vector<float> values;
        for (std::int64_t c = 2; c < kCols; ++c) {
          values.push_back(decode_value(packed.row(0), packed.format, packed.cols, c));
          sum += values.back();
        }
        seen.insert(values);
      }
      slot.wait_for_sends();
    }
    EXPECT_EQ(seen.size(), 4U * kEpochs);
    // 14,000 draws of 0 or 1 with mean 0.25: five standard deviations are 0.0183.
    EXPECT_NEAR(sum / (4.0 * kEpochs * static_cast<double>(kCols - 2)), 0.25, 0.0183);
  });
}

TEST(ExactHalo, ExactColumnsComeWithEveryBlock) {
  for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{1} << 20}) {
    with_shards(3, false, [&](Communicator& comm, const Shard& shard) {
      Device device(1);
      const PlacedShard placed(shard, device, MemoryUse::graph, nullptr);
      ExactHalo halo(comm, placed, kNodes, chunk, nullptr);
      const Matrix rows = rows_by_node(shard, kCols);
      const Matrix exact = exact_by_node(shard, 2);
      Site site = test::site(0, 0, Direction::forward, kCols);
      site.exact_cols = 2;
      halo.open(site, {rows.view(), nullptr, exact.view()});
      halo.offer(site, {0, rows.view().rows});
      std::int64_t columns = 0, blocks = 0;
      halo.finish(site, [&](const PackedRows& packed) {
        EXPECT_EQ(packed.col_begin, columns);
        ASSERT_EQ(packed.format.exact_cols, 2);
        ++blocks;
        columns += packed.cols;
        for (std::int64_t r = 0; r < packed.rows; ++r) {
          const float first = decode_value(packed.row(r), packed.format, packed.cols, 0);
          const float node = first - static_cast<float>(packed.col_begin) / 64.0F;
          for (int c = 0; c < 2; ++c) {
            EXPECT_EQ(packed.exact(r, c), -node - static_cast<float>(c) / 64.0F);
          }
        }
      });
      EXPECT_EQ(columns, kCols);
      EXPECT_EQ(blocks, chunk == 1 ? 3 : 1);
      EXPECT_EQ(halo.source_epoch(site, 7), 7);
    });
  }
}

TEST(ExactHalo, EveryColumnComesOnceInBlocksThatFit) {
  for (const bool directed : {false, true}) {
    for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{1} << 20}) {
      with_shards(3, directed, [&](Communicator& comm, const Shard& shard) {
        Device device(1);
        const PlacedShard placed(shard, device, MemoryUse::graph, nullptr);
        MemoryAccount account;
        ExactHalo halo(comm, placed, kNodes, chunk, &account);
        const Matrix rows = rows_by_node(shard, kCols);
        for (const Direction direction : {Direction::forward, Direction::backward}) {
          std::vector<int> columns(static_cast<std::size_t>(kCols), 0);
          const Site site = test::site(0, 0, direction, kCols);
          halo.open(site, {rows.view()});
          halo.offer(site, {0, rows.view().rows});
          halo.finish(site, [&](const PackedRows& packed) {
            ASSERT_EQ(packed.rows, shard.adjacency(direction).plan.halo_rows);
            EXPECT_LE(packed.cols, chunk == 1 ? 16 : kCols);
            for (std::int64_t c = 0; c < packed.cols; ++c) {
              ++columns[static_cast<std::size_t>(packed.col_begin + c)];
              const float value = decode_value(packed.row(0), packed.format, packed.cols, c);
              const float expected = static_cast<float>(packed.col_begin + c) / 64.0F;
              EXPECT_EQ(value - std::floor(value), expected);
            }
          });
          for (const int times : columns) EXPECT_EQ(times, 1);
        }
        EXPECT_EQ(account.peak(MemoryUse::halo), 0);
        EXPECT_GT(account.peak(MemoryUse::evaluation), 0);
      });
    }
  }
}

}  // namespace
}  // namespace heliograph
