#include "comm/exchange/send_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "comm/exchange/halo_exchange.hpp"
#include "support/expect_error.hpp"
#include "support/recording_communicator.hpp"
#include "support/sites.hpp"

namespace heliograph {
namespace {

constexpr int kInner = 9;
constexpr std::int64_t kScheduleCols = 37;

/// Rank 1 of 5: rows 2 and 3 go to three peers, row 8 to one alone, row 0 to none; rank 4 sends
/// without receiving and rank 0 receives without sending.
HaloPlan plan_of_rank_1() {
  HaloPlan plan;
  plan.inner_rows = kInner;
  plan.halo_rows = 5;
  plan.peers = {
      {0, {1, 2, 3, 8}, 0, 0}, {2, {2, 3, 4}, 0, 2}, {3, {2, 3, 4, 5, 6, 7}, 2, 4}, {4, {}, 4, 5}};
  return plan;
}

Shard shard_of_rank_1() {
  Shard shard;
  shard.rank = 1;
  shard.ranks = 5;
  shard.inner_rows = kInner;
  shard.global_ids = {10, 12, 17, 21, 22, 30, 31, 40, 55};
  shard.in.inner.offsets.assign(kInner + 1, 0);
  shard.in.halo.offsets.assign(kInner + 1, 0);
  shard.in.plan = plan_of_rank_1();
  return shard;
}

Matrix source() {
  Matrix m(kInner, kScheduleCols, MemoryUse::workspace, nullptr);
  for (std::int64_t r = 0; r < kInner; ++r) {
    for (std::int64_t c = 0; c < kScheduleCols; ++c) {
      m.view().row(r)[c] = std::sin(static_cast<float>(r * kScheduleCols + c));
    }
  }
  return m;
}

std::vector<int> peers_of(const SendSchedule& schedule) {
  std::vector<int> peers;
  for (const SendSchedule::Message& m : schedule.messages()) peers.push_back(m.peer);
  return peers;
}

std::int64_t copied_rows(const SendSchedule& schedule) {
  std::int64_t rows = schedule.rows();
  for (const SendSchedule::Message& m : schedule.messages()) {
    rows -= static_cast<std::int64_t>(m.fresh_rows().size());
  }
  return rows;
}

TEST(SendSchedule, BeginsWithTheNextRankAndLeavesOutEmptyMessages) {
  const HaloPlan plan = plan_of_rank_1();
  for (const bool share : {false, true}) {
    const SendSchedule schedule(plan, 1, 5, share);
    EXPECT_EQ(peers_of(schedule), (std::vector<int>{2, 3, 0}));
    EXPECT_EQ(schedule.rows(), 13);
    EXPECT_EQ(schedule.messages()[2].first_row, 9);
  }
}

TEST(SendSchedule, ARowIsEncodedForTheFirstPeerThatNeedsIt) {
  const HaloPlan plan = plan_of_rank_1();
  const SendSchedule schedule(plan, 1, 5, true);
  const auto& m = schedule.messages();
  EXPECT_TRUE(m[0].encodes_all);
  EXPECT_EQ(m[1].new_rows, (std::vector<std::int32_t>{5, 6, 7}));
  EXPECT_EQ(m[1].new_positions, (std::vector<std::int32_t>{3, 4, 5}));
  ASSERT_EQ(m[1].copies.size(), 1U);
  ASSERT_EQ(m[1].copies[0].runs.size(), 1U);  // One run: rows 2, 3 and 4.
  EXPECT_EQ(m[1].copies[0].runs[0].rows, 3);
  EXPECT_EQ(m[2].new_rows, (std::vector<std::int32_t>{1, 8}));
  EXPECT_EQ(copied_rows(schedule), 5);
  std::int64_t runs = 0;
  for (const SendSchedule::Message& message : m) {
    for (const SendSchedule::Copies& copies : message.copies) {
      runs += static_cast<std::int64_t>(copies.runs.size());
    }
  }
  // The first message, which encodes all, has no lists.
  const std::int64_t fixed = schedule.bytes() - 5 * 2 * 4 - runs * 12;
  EXPECT_LE(fixed, static_cast<std::int64_t>(m.capacity() * sizeof(SendSchedule::Message) +
                                             static_cast<std::size_t>(2 * runs) *
                                                 sizeof(SendSchedule::Copies)));

  const SendSchedule each(plan, 1, 5, false);
  EXPECT_EQ(copied_rows(each), 0);
  for (const SendSchedule::Message& message : each.messages()) EXPECT_TRUE(message.encodes_all);
}

TEST(SendSchedule, APlanWithoutPeersIsOrdinary) {
  HaloPlan plan;
  plan.inner_rows = 3;
  const SendSchedule schedule(plan, 0, 1, true);
  EXPECT_TRUE(schedule.messages().empty());
  EXPECT_EQ(schedule.rows(), 0);
}

/// Values that are never negative where the format has no minimum.
Matrix encodable_source(RowFormat format) {
  Matrix rows = source();
  if (format.has_minimum) return rows;
  for (std::int64_t r = 0; r < kInner; ++r) {
    for (std::int64_t c = 0; c < kScheduleCols; ++c) {
      rows.view().row(r)[c] = std::fabs(rows.view().row(r)[c]);
    }
  }
  return rows;
}

class HaloMessages : public testing::TestWithParam<RowFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, HaloMessages,
                         testing::Values(RowFormat{1, true}, RowFormat{1, false},
                                         RowFormat{2, true}, RowFormat{4, true},
                                         RowFormat{8, false}, RowFormat{16, false},
                                         RowFormat{32, false}),
                         [](const auto& format) {
                           return std::to_string(format.param.bits) + "Bits" +
                                  (format.param.has_minimum ? "WithMinimum" : "");
                         });

/// All that was sent to each peer.
std::map<int, std::vector<std::byte>> sent_by_peer(const test::RecordingCommunicator& comm) {
  std::map<int, std::vector<std::byte>> sent;
  for (const auto& post : comm.posts) {
    if (!post.sending) continue;
    std::vector<std::byte>& all = sent[post.peer];
    all.insert(all.end(), post.bytes.begin(), post.bytes.end());
  }
  return sent;
}

TEST_P(HaloMessages, AreWhatEachPeersRowsEncodeTo) {
  const Shard shard = shard_of_rank_1();
  const HaloPlan& plan = shard.in.plan;
  Device device(2);
  const PlacedShard placed(shard, device, MemoryUse::graph, nullptr);
  const auto codec = make_cpu_codec(GetParam());
  const std::vector<float> scale = {1, 2, 0.5F, 4, 1, 3, 1, 2, 7};
  const Matrix rows = encodable_source(GetParam());
  for (const auto& [share, pieces] :
       {std::pair{false, 1}, {true, 1}, {true, 2}, {true, 4}, {false, 3}, {true, 100}}) {
    SCOPED_TRACE(testing::Message() << "shared " << share << ", " << pieces << " pieces");
    test::RecordingCommunicator comm(1, 5);
    const SendSchedule schedule(plan, 1, 5, share, pieces);
    PhaseClock clock;
    HaloSlot slot(comm, Channel::halo, device, MemoryUse::halo, nullptr);
    const Site site = test::site(0, 2, Direction::backward, kScheduleCols);
    HaloExchange exchange(comm, placed, plan, schedule, site, 77);
    test::start(exchange, slot, *codec, 6, {rows.view(), scale.data()}, clock);
    const std::uint64_t stream = stream_key(77, Purpose::rounding, {6}, site.key);
    const auto sent = sent_by_peer(comm);
    EXPECT_EQ(sent.size(), 3U);
    for (const HaloPlan::Peer& peer : plan.peers) {
      if (peer.sent.empty()) continue;
      std::vector<std::byte> expected(
          codec->encoded_bytes(static_cast<std::int64_t>(peer.sent.size()), kScheduleCols));
      ASSERT_EQ(codec
                    ->encode(rows.view(), {peer.sent, scale.data(), shard.global_ids.data()},
                             stream, expected.data(), device.threads())
                    .row,
                -1);
      EXPECT_EQ(sent.at(peer.rank), expected) << "to rank " << peer.rank;
      std::vector<std::size_t> sizes, expected_sizes;
      const std::int64_t halo_rows = peer.halo_end - peer.halo_begin;
      for (const auto& post : comm.posts) {
        if (!post.sending && post.peer == peer.rank) sizes.push_back(post.size);
      }
      for (int piece = 0; piece < pieces; ++piece) {
        const std::int64_t received = SendSchedule::piece_begin(halo_rows, piece + 1, pieces) -
                                      SendSchedule::piece_begin(halo_rows, piece, pieces);
        if (received > 0) expected_sizes.push_back(codec->encoded_bytes(received, kScheduleCols));
      }
      EXPECT_EQ(sizes, expected_sizes) << "from rank " << peer.rank;
    }
    EXPECT_EQ(comm.bytes_sent(Channel::halo), exchange.bytes_sent());
    slot.wait_for_receives();
    slot.wait_for_sends();
  }
}

// The bits do not depend on the blocks, and a message leaves with the block that completes it.
TEST_P(HaloMessages, AreTheSameFromBlocksOfRows) {
  const Shard shard = shard_of_rank_1();
  Device device(2);
  const PlacedShard placed(shard, device, MemoryUse::graph, nullptr);
  const auto codec = make_cpu_codec(GetParam());
  const Matrix rows = encodable_source(GetParam());
  const auto posts = [&](std::int64_t block, int pieces) {
    const SendSchedule schedule(shard.in.plan, 1, 5, true, pieces);
    test::RecordingCommunicator comm(1, 5);
    PhaseClock clock;
    HaloSlot slot(comm, Channel::halo, device, MemoryUse::halo, nullptr);
    HaloExchange exchange(comm, placed, shard.in.plan, schedule,
                          test::site(0, 1, Direction::forward, kScheduleCols), 3);
    exchange.open(slot, *codec, {2}, {rows.view()}, clock);
    for (std::int64_t begin = 0; begin < kInner; begin += block) {
      const std::int64_t end = std::min<std::int64_t>(kInner, begin + block);
      exchange.offer({begin, end}, clock);
      for (const HaloPlan::Peer& peer : shard.in.plan.peers) {
        const auto left = std::count_if(comm.posts.begin(), comm.posts.end(), [&](const auto& p) {
          return p.sending && p.peer == peer.rank;
        });
        const auto complete = std::ranges::count_if(schedule.messages(), [&](const auto& m) {
          return m.peer == peer.rank && m.send_rows.back() < end;
        });
        EXPECT_EQ(left, complete) << "rank " << peer.rank << ", rows to " << end;
      }
    }
    slot.wait_for_receives();
    slot.wait_for_sends();
    return sent_by_peer(comm);
  };
  const auto whole = posts(kInner, 1);
  EXPECT_EQ(whole.size(), 3U);
  for (const int pieces : {1, 2, 5}) {
    for (const std::int64_t block : {1, 2, 4}) EXPECT_EQ(posts(block, pieces), whole) << block;
  }
}

// Row 8 is for the last peer only: the messages of the others are sent before it is refused.
TEST(HaloExchange, AMessageLeavesBeforeTheNextOneIsEncoded) {
  const Shard shard = shard_of_rank_1();
  const HaloPlan& plan = shard.in.plan;
  Device device(2);
  const PlacedShard placed(shard, device, MemoryUse::graph, nullptr);
  const auto codec = make_cpu_codec({1, true});
  const Matrix rows = source();
  rows.view().row(8)[5] = std::numeric_limits<float>::quiet_NaN();
  PhaseClock clock;
  test::RecordingCommunicator comm(1, 5);
  const SendSchedule schedule(plan, 1, 5, true);
  {
    HaloSlot slot(comm, Channel::halo, device, MemoryUse::halo, nullptr);
    HaloExchange exchange(comm, placed, plan, schedule,
                          test::site(0, 0, Direction::forward, kScheduleCols), 1);
    test::expect_error(ErrorCode::numeric, "node 55",
                       [&] { test::start(exchange, slot, *codec, 3, {rows.view()}, clock); });
    EXPECT_EQ(comm.aborted, "");
  }
  std::vector<int> received, sent;
  for (const auto& post : comm.posts) {
    EXPECT_TRUE(post.sending || sent.empty()) << "a receive was posted late";
    (post.sending ? sent : received).push_back(post.peer);
  }
  EXPECT_EQ(received, (std::vector<int>{2, 3, 4}));
  EXPECT_EQ(sent, (std::vector<int>{2, 3}));
  EXPECT_EQ(comm.aborted, "the run ended with halos in flight");
}

TEST(HaloExchange, ASlotThatAnotherExchangeHasTakenIsRefused) {
  const Shard shard = shard_of_rank_1();
  const HaloPlan& plan = shard.in.plan;
  Device device(2);
  const PlacedShard placed(shard, device, MemoryUse::graph, nullptr);
  const auto codec = make_cpu_codec({1, true});
  const Matrix rows = source();
  PhaseClock clock;
  test::RecordingCommunicator comm(1, 5);
  const SendSchedule schedule(plan, 1, 5, true);
  HaloSlot slot(comm, Channel::halo, device, MemoryUse::halo, nullptr);
  HaloExchange one(comm, placed, plan, schedule,
                   test::site(0, 0, Direction::forward, kScheduleCols), 1);
  HaloExchange two(comm, placed, plan, schedule,
                   test::site(1, 1, Direction::forward, kScheduleCols), 1);
  test::start(one, slot, *codec, 0, {rows.view()}, clock);
  test::start(two, slot, *codec, 0, {rows.view()}, clock);
  EXPECT_EQ(two.finish(slot, {}, clock).rows, plan.halo_rows);
  EXPECT_THROW(one.finish(slot, {}, clock), Error);
  slot.wait_for_sends();
}

TEST(HaloSlot, KeepsTheLargestBuffersAndCountsThem) {
  MemoryAccount account;
  Device device(1);
  test::RecordingCommunicator comm(0, 2);
  HaloSlot slot(comm, Channel::halo, device, MemoryUse::halo, &account);
  slot.send_buffer(100);
  slot.receive_buffer(40);
  const std::byte* kept = slot.send_buffer(60);
  EXPECT_EQ(account.live(MemoryUse::halo), 140);
  EXPECT_EQ(slot.send_buffer(100), kept);
  slot.send_buffer(300);
  EXPECT_EQ(account.live(MemoryUse::halo), 340);
  EXPECT_EQ(account.peak(MemoryUse::halo),
            340);  // The old buffer is freed before the new one is made.
}

}  // namespace
}  // namespace heliograph
