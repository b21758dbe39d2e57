#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "comm/arrives_unattended.hpp"
#include "comm/beside_spinning.hpp"
#include "comm/clock.hpp"
#include "comm/process_faults.hpp"
#include "comm/sleep_for.hpp"
#include "comm/tcp/transport.hpp"
#include "comm/tcp_groups.hpp"
#include "comm/transport_epochs.hpp"
#include "comm/transport_rounds.hpp"
#include "support/allocations.hpp"
#include "support/expect_error.hpp"
#include "support/faulty_communicator.hpp"

namespace heliograph {
namespace {

using test::Caught;
using test::expect_none;
using test::run_tcp_groups;
using test::sleep_for;

/// Sends one message, the size of `buffer`, from rank 0 to rank 1.
void send_to_1(Communicator& comm, Channel channel, std::vector<std::byte>& buffer) {
  const SendMessage send{1, buffer.data(), buffer.size()};
  const RecvMessage receive{0, buffer.data(), buffer.size()};
  if (comm.rank() == 0) comm.wait(comm.post(channel, {&send, 1}, {}));
  if (comm.rank() == 1) comm.wait(comm.post(channel, {}, {&receive, 1}));
}

/// Whole messages, messages in a few pieces, and more pieces than may be under way.
struct Shape {
  int ranks;
  std::size_t piece_bytes;
};
class TcpMessages : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(RanksAndPieces, TcpMessages,
                         ::testing::Values(Shape{2, 1 << 20}, Shape{2, 1000}, Shape{3, 50'000},
                                           Shape{4, 256 << 10}, Shape{4, 1000}),
                         [](const auto& tested) {
                           return std::to_string(tested.param.ranks) + "Ranks" +
                                  std::to_string(tested.param.piece_bytes) + "Bytes";
                         });

TEST_P(TcpMessages, ArriveInOrderAndWhole) {
  std::atomic<int> wrong = 0;
  expect_none(run_tcp_groups(
      GetParam().ranks, [&](Communicator& comm) { test::exchange_rounds(comm, 20, wrong); },
      [](TcpTransportOptions& options) { options.piece_bytes = GetParam().piece_bytes; }));
  EXPECT_EQ(wrong, 0);
}

TEST_P(TcpMessages, ArriveWhenDelayedAndReordered) {
  std::atomic<int> wrong = 0;
  expect_none(run_tcp_groups(
      GetParam().ranks,
      [&](Communicator& inner) {
        test::Faults faults;
        faults.delay_us = 200;
        faults.reorder = true;
        test::FaultyCommunicator comm(inner, faults);
        test::exchange_rounds(comm, 5, wrong);
      },
      [](TcpTransportOptions& options) { options.piece_bytes = GetParam().piece_bytes; }));
  EXPECT_EQ(wrong, 0);
}

TEST(Tcp, EmptyMessagesAreLeftOut) {
  expect_none(run_tcp_groups(3, [](Communicator& comm) {
    const SendMessage nothing{(comm.rank() + 1) % comm.size(), nullptr, 0};
    EXPECT_TRUE(comm.done(comm.post(Channel::halo, {&nothing, 1}, {})));
    EXPECT_TRUE(comm.done(Ticket{}));
    EXPECT_EQ(comm.bytes_sent(Channel::halo), 0);
    test::expect_error(ErrorCode::usage, "", [&] { comm.wait(Ticket{1}); });
    barrier(comm, Channel::halo);
  }));
}

TEST(Tcp, AGroupOfOneMeetsNobody) {
  TcpGroup group(test::tcp_options(0, 1, 0));
  int ranks = 0;
  group.run([&](Communicator& comm) { ranks = comm.size(); });
  group.leave();
  EXPECT_EQ(ranks, 1);
}

TEST(Tcp, AGroupRunsSeveralBodiesAndCountsEachFromZero) {
  const std::uint16_t port = test::free_port();
  expect_none(test::on_threads(2, [&](int rank) {
    TcpGroup group(test::tcp_options(rank, 2, port));
    EXPECT_EQ(group.rank(), rank);
    EXPECT_EQ(group.ranks(), 2);
    EXPECT_EQ(group.rank_on_host(), rank);
    EXPECT_GE(group.cores(), 1);
    for (int repeat = 0; repeat < 3; ++repeat) {
      group.run([&](Communicator& comm) {
        std::vector<std::byte> buffer(1000 + static_cast<std::size_t>(repeat));
        send_to_1(comm, Channel::halo, buffer);
        const std::int64_t sent = rank == 0 ? 1000 + repeat : 0;
        EXPECT_EQ(comm.bytes_sent(Channel::halo), sent);
      });
    }
    group.leave();
  }));
}

TEST(Tcp, TheDeviceIsTheOneOfTheLocalRank) {
  const std::uint16_t port = test::free_port();
  expect_none(test::on_threads(2, [&](int rank) {
    TcpTransportOptions options = test::tcp_options(rank, 2, port);
    options.launch.local_rank = 1 - rank;
    TcpGroup group(options);
    EXPECT_EQ(group.rank_on_host(), 1 - rank);
    group.leave();
  }));
}

TEST(Tcp, BytesTravelWhileTheRankDoesSomethingElse) {
  expect_none(run_tcp_groups(2, [](Communicator& comm) {
    const auto other = static_cast<std::size_t>(1 - comm.rank());
    std::vector<std::byte> out(2'000'000, static_cast<std::byte>(comm.rank() + 1));
    std::vector<std::byte> in(2'000'000);
    const SendMessage send{1 - comm.rank(), out.data(), out.size()};
    const RecvMessage receive{1 - comm.rank(), in.data(), in.size()};
    barrier(comm, Channel::evaluation);
    const Ticket ticket = comm.post(Channel::halo, {&send, 1}, {&receive, 1});
    EXPECT_TRUE(test::arrives_unattended(comm, ticket));
    comm.wait(ticket);
    EXPECT_EQ(in.back(), static_cast<std::byte>(other + 1));
    barrier(comm, Channel::evaluation);
  }));
}

TEST(Tcp, WhatNobodyAsksForYetHoldsUpNoOtherChannel) {
  expect_none(run_tcp_groups(2, [](Communicator& comm) {
    std::vector<std::byte> halo(64 << 20), weights(3 << 20);
    const SendMessage send{1, halo.data(), halo.size()};
    const RecvMessage receive{0, halo.data(), halo.size()};
    Ticket ticket;
    if (comm.rank() == 0) ticket = comm.post(Channel::halo, {&send, 1}, {});
    send_to_1(comm, Channel::weights, weights);
    barrier(comm, Channel::evaluation);
    if (comm.rank() == 0) {
      EXPECT_FALSE(comm.done(ticket));  // More than sockets hold.
    }
    barrier(comm, Channel::weights);
    if (comm.rank() == 1) ticket = comm.post(Channel::halo, {}, {&receive, 1});
    comm.wait(ticket);
  }));
}

TEST(Tcp, SmallMessagesPassLargeOnesThatFlow) {
  // A connection that always has something to move must not starve one that had nothing before.
  double longest = 0, all = 0;
  expect_none(run_tcp_groups(2, [&](Communicator& comm) {
    std::vector<std::byte> buffer(32 << 20);
    const SendMessage send{1, buffer.data(), buffer.size()};
    const RecvMessage receive{0, buffer.data(), buffer.size()};
    for (int repeat = 0; repeat < 2; ++repeat) {
      Ticket large;
      for (int i = 0; i < 40; ++i) {
        if (comm.rank() == 0) large = comm.post(Channel::halo, {&send, 1}, {});
        if (comm.rank() == 1) large = comm.post(Channel::halo, {}, {&receive, 1});
      }
      const double began = monotonic_seconds();
      double slowest = 0;
      for (std::byte flows{1}; flows != std::byte{};) {
        const double asked = monotonic_seconds();
        std::byte said = flows, heard = flows;
        if (comm.rank() == 0 && comm.done(large)) said = std::byte{};
        const SendMessage word{1 - comm.rank(), &said, 1};
        const RecvMessage answer{1 - comm.rank(), &heard, 1};
        comm.wait(comm.post(Channel::weights, {&word, 1}, {&answer, 1}));
        flows = comm.rank() == 0 ? said : heard;
        slowest = std::max(slowest, monotonic_seconds() - asked);
      }
      if (comm.rank() == 0) {
        longest += slowest;
        all += monotonic_seconds() - began;
      }
      comm.wait(large);
    }
  }));
  EXPECT_LT(longest, 0.1 * all);
}

TEST(Tcp, WaitsAsleep) {
  expect_none(run_tcp_groups(3, [](Communicator& comm) {
    barrier(comm, Channel::weights);
    if (comm.rank() == 0) {
      EXPECT_LT(test::taken_beside_spinning(1), test::kSpinsToo);
    }
    barrier(comm, Channel::weights);
  }));
}

TEST(Tcp, TheSteadyStateAllocatesNothing) {
  if (!test::allocations_are_counted()) GTEST_SKIP() << "sanitizers own the allocator";
  expect_none(run_tcp_groups(3, [](Communicator& comm) {
    test::TransportEpochs epochs(comm);
    epochs.run(20);
    EXPECT_LT(test::allocations_of_rounds(comm, epochs, 200), 100);
    barrier(comm, Channel::evaluation);
  }));
}

TEST(Tcp, WhoWaitsForTheOthersEndsSaysWhereItWas) {
  const std::uint16_t port = test::free_port();
  std::atomic<bool> told = false;
  const auto caught = test::on_threads(2, [&](int rank) {
    TcpGroup group(test::tcp_options(rank, 2, port));
    if (rank == 1) {
      while (!told) sleep_for(0.001);
      sleep_for(0.5);  // Rank 0 has nothing left to do but to wait.
      return;          // As if its process had ended.
    }
    group.run([&](Communicator& comm) {
      comm.set_progress({7, -1});
      told = true;
    });
  });
  EXPECT_NE(caught[0].text.find("noticed by rank 0, epoch 7)"), std::string::npos)
      << caught[0].text;
}

/// Expects that all ranks threw an Error with `text` in it: rank `cause` with `code`, others with
/// peer_lost.
void expect_failure(const std::vector<Caught>& caught, int cause, ErrorCode code,
                    const std::string& text) {
  for (std::size_t rank = 0; rank < caught.size(); ++rank) {
    EXPECT_EQ(caught[rank].code, static_cast<int>(rank) == cause ? code : ErrorCode::peer_lost)
        << rank;
    EXPECT_NE(caught[rank].text.find(text), std::string::npos) << rank << ": " << caught[rank].text;
  }
}

TEST(TcpFaults, SizesThatDisagreeNameRanksChannelAndSizes) {
  for (const auto& [sent, expected] : {std::pair{12, 8}, std::pair{8, 12},
                                       std::pair{300'000, 500'000}, std::pair{500'000, 300'000}}) {
    const auto caught = run_tcp_groups(
        2,
        [&, sent = sent, expected = expected](Communicator& comm) {
          std::vector<std::byte> buffer(
              static_cast<std::size_t>(comm.rank() == 0 ? sent : expected));
          send_to_1(comm, Channel::weights, buffer);
          barrier(comm, Channel::halo);
        },
        [](TcpTransportOptions& options) { options.piece_bytes = 1000; });
    expect_failure(caught, -1, {},
                   "rank 1: rank 0 sends " + std::to_string(sent) +
                       " bytes on the weights channel, rank 1 expects " + std::to_string(expected));
  }
}

void expect_fault(int ranks, const test::ProcessFault& fault) {
  expect_failure(run_tcp_groups(ranks, fault.body), fault.cause, fault.code, fault.text);
}

TEST(TcpFaults, AnExceptionKeepsItsCodeWhereItAroseAndNamesItsRankEverywhere) {
  expect_fault(3, test::kException);
}

TEST(TcpFaults, AnExceptionAfterTheOthersHaveEndedReachesThemToo) {
  const auto caught = run_tcp_groups(3, [](Communicator& comm) {
    barrier(comm, Channel::halo);
    if (comm.rank() != 2) return;
    sleep_for(0.2);
    throw Error(ErrorCode::bad_input, "too late");
  });
  expect_failure(caught, 2, ErrorCode::bad_input, "rank 2: too late");
}

TEST(TcpFaults, AnExceptionIsToldAndNotWhatItCausesOnItsWay) { expect_fault(3, test::kUnwinding); }

TEST(TcpFaults, AbortEndsTheWaitsOfAllRanks) { expect_fault(3, test::kAbort); }

TEST(TcpFaults, ADeadlineNamesWhoWaitedForWhomAndWhere) {
  const auto caught = run_tcp_groups(
      2, test::wait_in_vain, [](TcpTransportOptions& options) { options.timeout_seconds = 0.5; });
  expect_failure(caught, -1, {}, test::waited_in_vain("0.5"));
}

TEST(TcpFaults, EndingWithMessagesInFlightIsAnError) { expect_fault(2, test::kInFlight); }

TEST(TcpFaults, AbortReturnsOnceNoBufferIsTouched) {
  // A sanitizer reports it if a byte moves after the buffers are gone.
  for (int repeat = 0; repeat < 10; ++repeat) {
    const auto caught = run_tcp_groups(3, [&](Communicator& comm) {
      std::vector<std::vector<std::byte>> out(3), in(3);
      std::vector<SendMessage> sends;
      std::vector<RecvMessage> receives;
      for (int peer = 0; peer < 3; ++peer) {
        if (peer == comm.rank()) continue;
        const auto p = static_cast<std::size_t>(peer);
        out[p].resize(8 << 20);
        in[p].resize(8 << 20);
        sends.push_back({peer, out[p].data(), out[p].size()});
        receives.push_back({peer, in[p].data(), in[p].size()});
      }
      const Ticket ticket = comm.post(Channel::halo, sends, receives);
      if (comm.rank() == 2) {
        sleep_for(1e-3 * repeat);
        comm.abort("enough");
        return;
      }
      comm.wait(ticket);
      barrier(comm, Channel::weights);
    });
    expect_failure(caught, -1, {}, "rank 2: enough");
  }
}

TEST(TcpFaults, ARankThatVanishesIsNamedByAll) {
  const std::uint16_t port = test::free_port();
  const TcpTransportOptions patient = test::patient(test::tcp_options(0, 3, port));
  const double began = monotonic_seconds();
  const auto caught = test::on_threads(3, [&](int rank) {
    TcpTransportOptions options = patient;
    options.launch.rank = rank;
    TcpGroup group(options);
    if (rank == 1) return;  // Its connections close as if its process had ended.
    group.run([](Communicator& comm) {
      comm.set_progress({2, 0});
      barrier(comm, Channel::halo);
    });
  });
  for (const std::size_t rank : {0U, 2U}) {
    EXPECT_EQ(caught[rank].code, ErrorCode::peer_lost);
    EXPECT_EQ(caught[rank].text.find("rank 1 was lost on host "), 0U) << caught[rank].text;
  }
  EXPECT_LT(monotonic_seconds() - began, test::kPatience / 2);
}

}  // namespace
}  // namespace heliograph
