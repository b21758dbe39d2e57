#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <vector>

#include "comm/threads/transport.hpp"
#include "comm/transport_rounds.hpp"
#include "core/thread.hpp"
#include "support/expect_error.hpp"
#include "support/faulty_communicator.hpp"

namespace heliograph {
namespace {

using test::error_of;
using test::exchange_rounds;

class TransportMessages : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TransportMessages, testing::Values(1, 2, 4, 7),
                         testing::PrintToStringParamName());

TEST_P(TransportMessages, ArriveInOrderAndWhole) {
  std::atomic<int> wrong = 0;
  run_ranks(GetParam(), {}, [&](Communicator& comm) { exchange_rounds(comm, 30, wrong); });
  EXPECT_EQ(wrong, 0);
}

TEST_P(TransportMessages, ArriveOverShapedLinks) {
  std::atomic<int> wrong = 0;
  ThreadTransportOptions options;
  options.link = {20, 30};
  run_ranks(GetParam(), options, [&](Communicator& comm) { exchange_rounds(comm, 10, wrong); });
  EXPECT_EQ(wrong, 0);
}

TEST_P(TransportMessages, ArriveWhenDelayedAndReordered) {
  std::atomic<int> wrong = 0;
  run_ranks(GetParam(), {}, [&](Communicator& inner) {
    test::Faults faults;
    faults.delay_us = 200;
    faults.reorder = true;
    test::FaultyCommunicator comm(inner, faults);
    exchange_rounds(comm, 10, wrong);
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Transport, EmptyBatchIsDoneAtOnce) {
  run_ranks(2, {}, [&](Communicator& comm) {
    const SendMessage nothing{1 - comm.rank(), nullptr, 0};
    const Ticket ticket = comm.post(Channel::halo, {&nothing, 1}, {});
    EXPECT_TRUE(comm.done(ticket));
    comm.wait(ticket);
    EXPECT_TRUE(comm.done(Ticket{}));
    EXPECT_EQ(comm.bytes_sent(Channel::halo), 0);
  });
}

TEST(Transport, DoneTellsWhetherBytesHaveArrived) {
  run_ranks(2, {}, [&](Communicator& comm) {
    std::byte buffer{7};
    if (comm.rank() == 1) {
      std::byte go{};
      const RecvMessage receive{0, &buffer, 1};
      const RecvMessage ready{0, &go, 1};
      const Ticket early = comm.post(Channel::halo, {}, {&receive, 1});
      EXPECT_FALSE(comm.done(early));
      comm.wait(comm.post(Channel::weights, {}, {&ready, 1}));
      comm.wait(early);
      EXPECT_TRUE(comm.done(early));
      EXPECT_EQ(buffer, std::byte{9});
    } else {
      const std::byte go{1};
      const SendMessage ready{1, &go, 1};
      comm.wait(comm.post(Channel::weights, {&ready, 1}, {}));
      buffer = std::byte{9};
      const SendMessage send{1, &buffer, 1};
      comm.wait(comm.post(Channel::halo, {&send, 1}, {}));
    }
  });
}

TEST(Transport, RefusesBatchesThatBreakTheRules) {
  std::byte buffer{};
  const auto post = [&](std::vector<SendMessage> sends, std::vector<RecvMessage> receives) {
    return error_of([&] {
      run_ranks(3, {}, [&](Communicator& comm) {
        if (comm.rank() == 2) comm.post(Channel::halo, sends, receives);
      });
    });
  };
  EXPECT_EQ(post({{2, &buffer, 1}}, {}).code, ErrorCode::usage);
  EXPECT_EQ(post({}, {{3, &buffer, 1}}).code, ErrorCode::usage);
  EXPECT_EQ(post({{-1, &buffer, 1}}, {}).code, ErrorCode::usage);
  EXPECT_EQ(post({{0, nullptr, 1}}, {}).code, ErrorCode::usage);
  const auto twice = post({{0, &buffer, 1}, {0, &buffer, 1}}, {});
  EXPECT_EQ(twice.code, ErrorCode::usage);
  EXPECT_NE(twice.text.find("peer 0 is there twice"), std::string::npos) << twice.text;
}

TEST(Transport, RefusesOptionsOutOfRange) {
  const auto nothing = [](Communicator&) {};
  test::expect_error(ErrorCode::usage, "", [&] { run_ranks(0, {}, nothing); });
  test::expect_error(ErrorCode::usage, "", [&] { run_ranks(2, {{-1, 0}, 1}, nothing); });
  test::expect_error(ErrorCode::usage, "", [&] { run_ranks(2, {{0, -1}, 1}, nothing); });
  test::expect_error(ErrorCode::usage, "", [&] { run_ranks(2, {{}, 0}, nothing); });
}

TEST(Transport, RanksHaveTheStackOfAThread) {
  pthread_attr_t usual, small;
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, std::size_t{1} << 20);
  ASSERT_EQ(pthread_setattr_default_np(&small), 0);
  for (const int ranks : {1, 2}) {
    run_ranks(ranks, {}, [](Communicator&) {
      pthread_attr_t attributes;
      ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
      std::size_t bytes = 0;
      EXPECT_EQ(pthread_attr_getstacksize(&attributes, &bytes), 0);
      pthread_attr_destroy(&attributes);
      EXPECT_GE(bytes, Thread::kStackBytes);
    });
  }
  pthread_setattr_default_np(&usual);
}

}  // namespace
}  // namespace heliograph
