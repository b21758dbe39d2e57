#include "comm/processes/message_queues.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace heliograph {
namespace {

constexpr MessageEnd kToOne{1, Channel::halo, true};
constexpr MessageEnd kFromOne{1, Channel::halo, false};
constexpr MessageEnd kWeightsToTwo{2, Channel::weights, true};

TEST(MessageQueues, CutsAMessageIntoPiecesInOrder) {
  std::array<std::byte, 10> data{};
  MessageQueues queues(3, 4);
  queues.push(kToOne, data.data(), data.size(), 7);
  std::vector<MessageQueues::Piece> pieces;
  while (const auto piece = queues.start()) pieces.push_back(*piece);
  ASSERT_EQ(pieces.size(), 3U);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(pieces[i].data, data.data() + 4 * i);
    EXPECT_EQ(pieces[i].bytes, i == 2 ? 2U : 4U);
    EXPECT_EQ(pieces[i].message_bytes, 10U);
    EXPECT_EQ(pieces[i].end.peer, 1);
    EXPECT_TRUE(pieces[i].end.sending);
  }
  // In whatever order they come, the last one completes the ticket.
  EXPECT_FALSE(queues.finish(pieces[2]));
  EXPECT_FALSE(queues.finish(pieces[0]));
  ASSERT_TRUE(queues.unfinished(7));
  EXPECT_EQ(queues.unfinished(7)->peer, 1);
  EXPECT_EQ(queues.finish(pieces[1]), 7U);
  EXPECT_FALSE(queues.unfinished(7));
}

TEST(MessageQueues, AFullQueueHoldsUpNoOther) {
  std::vector<std::byte> data(100);
  MessageQueues queues(3, 10);
  queues.push(kToOne, data.data(), 100, 1);
  int large = 0;
  while (queues.start()) ++large;
  EXPECT_EQ(large, MessageQueues::kLargePiecesUnderWay);
  queues.push(kWeightsToTwo, data.data(), 5, 2);
  queues.push(kFromOne, data.data(), 5, 3);
  std::vector<MessageEnd> started;
  while (const auto piece = queues.start()) started.push_back(piece->end);
  ASSERT_EQ(started.size(), 2U);
  EXPECT_NE(started[0].peer, started[1].peer);
}

TEST(MessageQueues, OnlySoManySmallMessagesAreUnderWay) {
  std::byte data{};
  MessageQueues queues(2, 1000);
  for (std::uint64_t ticket = 1; ticket <= 40; ++ticket) queues.push(kToOne, &data, 1, ticket);
  std::deque<MessageQueues::Piece> under_way;
  while (const auto piece = queues.start()) under_way.push_back(*piece);
  EXPECT_EQ(under_way.size(), static_cast<std::size_t>(MessageQueues::kPiecesUnderWay));
  std::uint64_t expected = 1;
  while (!under_way.empty()) {
    EXPECT_EQ(queues.finish(under_way.front()), expected++);
    under_way.pop_front();
    while (const auto piece = queues.start()) under_way.push_back(*piece);
  }
  EXPECT_EQ(expected, 41U);
}

TEST(MessageQueues, EveryByteGoesOnceInAnyOrderOfEnds) {
  std::mt19937 random(5);
  MessageQueues queues(4, 64);
  std::vector<std::byte> data(1000);
  std::vector<int> seen(1000);
  std::vector<MessageQueues::Piece> under_way;
  std::size_t posted = 0;
  std::size_t completed = 0;
  while (completed < 300) {
    if (posted < 300 && random() % 2 == 0) {
      const MessageEnd end{static_cast<int>(random() % 4), static_cast<Channel>(random() % 3),
                           random() % 2 == 0};
      queues.push(end, data.data(), 1 + random() % 999, ++posted);
    }
    while (const auto piece = queues.start()) {
      ASSERT_LE(piece->bytes, 64U);
      under_way.push_back(*piece);
    }
    if (under_way.empty()) continue;
    const std::size_t at = random() % under_way.size();
    if (queues.finish(under_way[at])) ++completed;
    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(at));
  }
  EXPECT_TRUE(under_way.empty());
  for (std::uint64_t ticket = 1; ticket <= 300; ++ticket) EXPECT_FALSE(queues.unfinished(ticket));
}

TEST(SizeTags, TellTheSize) {
  constexpr int kLargest = std::numeric_limits<int>::max();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{12345}, std::size_t{1} << 29}) {
    EXPECT_EQ(size_of_tag(tag_of_size(bytes, kLargest), kLargest), bytes);
  }
  const std::size_t large = (std::size_t{5} << 30) + 64;
  EXPECT_EQ(size_of_tag(tag_of_size(large, kLargest), kLargest), large);
  EXPECT_NE(tag_of_size(large, kLargest), tag_of_size(large + 64, kLargest));
  for (const int largest : {32767, kLargest}) {
    for (std::size_t bytes = 1; bytes < (std::size_t{1} << 40); bytes = bytes * 3 + 1) {
      EXPECT_GE(tag_of_size(bytes, largest), 0);
      EXPECT_LE(tag_of_size(bytes, largest), largest);
    }
  }
}

}  // namespace
}  // namespace heliograph
