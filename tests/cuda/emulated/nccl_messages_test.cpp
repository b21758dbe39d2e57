// Where halo messages go and when, by the calls that NCCL sees and the bytes that arrive.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/tcp_groups.hpp"
#include "comm/threads/transport.hpp"
#include "cuda/emulated/device_bytes.hpp"
#include "cuda/emulated/nccl_run.hpp"
#include "support/expect_error.hpp"

namespace heliograph::test {
namespace {

using ::testing::HasSubstr;

/// What rank `from` sends to rank `to` in a round.
std::uint8_t value_of(int from, int to, int round) {
  return static_cast<std::uint8_t>(1 + from + 4 * to + 16 * round);
}
/// Sizes differ, and some are 0.
std::size_t size_of(int from, int to) {
  return static_cast<std::size_t>((from + to) % 3 == 0 ? 0 : 1000 * from + 37 * to + 1);
}

class Peers {
 public:
  explicit Peers(Communicator& comm) : comm_(comm) {
    for (int peer = 0; peer < comm.size(); ++peer) {
      if (peer == comm.rank()) continue;
      ranks_.push_back(peer);
      out_.push_back(std::make_unique<DeviceBytes>(size_of(comm.rank(), peer)));
      in_.push_back(std::make_unique<DeviceBytes>(size_of(peer, comm.rank())));
    }
  }

  /// As an exchange does: all receives in one batch, then each send in one of its own.
  std::vector<Ticket> post(int round) {
    std::vector<RecvMessage> receives;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      receives.push_back({ranks_[i], in_[i]->data(), size_of(ranks_[i], comm_.rank())});
      out_[i]->fill(value_of(comm_.rank(), ranks_[i], round));
    }
    std::vector<Ticket> tickets{comm_.post(Channel::halo, {}, receives)};
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const SendMessage send{ranks_[i], out_[i]->data(), size_of(comm_.rank(), ranks_[i])};
      tickets.push_back(comm_.post(Channel::halo, {&send, 1}, {}));
    }
    return tickets;
  }

  void expect_received(int round) const {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const std::vector<std::uint8_t> expected(size_of(ranks_[i], comm_.rank()),
                                               value_of(ranks_[i], comm_.rank(), round));
      EXPECT_EQ(in_[i]->read(), expected) << "from rank " << ranks_[i];
    }
  }

 private:
  Communicator& comm_;
  std::vector<int> ranks_;
  std::vector<std::unique_ptr<DeviceBytes>> out_, in_;
};

class NcclMessages : public NcclTest {};

class NcclRanks : public NcclTest, public ::testing::WithParamInterface<std::pair<int, int>> {};

TEST_P(NcclRanks, MoveTheRightBytes) {
  const auto [ranks, polls] = GetParam();
  nccl_emulation::set_polls(polls);
  run_nccl_ranks(ranks, {}, [](Communicator& comm) {
    Peers peers(comm);
    for (int round = 0; round < 3; ++round) {
      const std::vector<Ticket> tickets = peers.post(round);
      comm.flush();
      for (const Ticket ticket : tickets) comm.wait(ticket);
      for (const Ticket ticket : tickets) EXPECT_TRUE(comm.done(ticket));
      peers.expect_received(round);
    }
  });
  for (int rank = 0; rank < ranks; ++rank) {
    // A single rank needs no NCCL.
    EXPECT_EQ(functions_of(rank).ends_with("ncclCommFinalize ncclCommDestroy"), ranks > 1);
  }
}

// The second number: questions for the state during which each thing is in progress.
INSTANTIATE_TEST_SUITE_P(All, NcclRanks,
                         ::testing::Values(std::pair(1, 0), std::pair(2, 0), std::pair(3, 0),
                                           std::pair(4, 0), std::pair(2, 7), std::pair(3, 300)),
                         [](const auto& tested) {
                           return std::to_string(tested.param.first) + "Ranks" +
                                  std::to_string(tested.param.second) + "Polls";
                         });

/// As between processes that torchrun's variables bring together: TCP carries all but halo rows.
TEST_F(NcclMessages, TakeTheirWayBesideTcpToo) {
  expect_none(run_tcp_groups(3, [](Communicator& host) {
    const auto comm = make_nccl_communicator(host, host.rank(), {});
    Peers peers(*comm);
    for (int round = 0; round < 3; ++round) {
      const std::vector<Ticket> tickets = peers.post(round);
      barrier(*comm, Channel::weights);
      for (const Ticket ticket : tickets) comm->wait(ticket);
      peers.expect_received(round);
    }
    EXPECT_EQ(host.bytes_sent(Channel::halo), 0);
    EXPECT_GT(comm->bytes_sent(Channel::halo), 0);
  }));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_TRUE(functions_of(rank).ends_with("ncclCommFinalize ncclCommDestroy"));
  }
}

TEST_F(NcclMessages, OneFlushIsOneGroupWithoutEmptyMessages) {
  run_nccl_ranks(3, {}, [](Communicator& comm) {
    Peers peers(comm);
    const std::vector<Ticket> tickets = peers.post(0);
    EXPECT_THAT(functions_of(comm.rank()), Not(HasSubstr("Group")));
    comm.flush();
    comm.flush();  // There is nothing left.
    for (const Ticket ticket : tickets) comm.wait(ticket);
  });
  // Between ranks 1 and 2 all messages are empty.
  EXPECT_EQ(functions_of(0),
            "ncclGetUniqueId ncclCommInitRankConfig ncclGroupStart ncclRecv:1:1001 "
            "ncclRecv:2:2001 ncclSend:1:38 ncclSend:2:75 ncclGroupEnd ncclCommFinalize "
            "ncclCommDestroy");
  EXPECT_EQ(functions_of(1),
            "ncclCommInitRankConfig ncclGroupStart ncclRecv:0:38 ncclSend:0:1001 ncclGroupEnd "
            "ncclCommFinalize ncclCommDestroy");
}

TEST_F(NcclMessages, ABatchOfEmptyMessagesIsDoneAtOnceAndSeesNoNccl) {
  run_nccl_ranks(2, {}, [](Communicator& comm) {
    const int peer = 1 - comm.rank();
    const SendMessage send{peer, nullptr, 0};
    const RecvMessage receive{peer, nullptr, 0};
    const Ticket ticket = comm.post(Channel::halo, {&send, 1}, {&receive, 1});
    EXPECT_TRUE(comm.done(ticket));
    comm.wait(ticket);
    EXPECT_EQ(comm.bytes_sent(Channel::halo), 0);
  });
  EXPECT_THAT(functions_of(0), Not(HasSubstr("Group")));
}

TEST_F(NcclMessages, WaitingFlushes) {
  run_nccl_ranks(2, {}, [](Communicator& comm) {
    Peers peers(comm);
    const std::vector<Ticket> tickets = peers.post(1);
    for (const Ticket ticket : tickets) comm.wait(ticket);
    peers.expect_received(1);
  });
}

TEST_F(NcclMessages, GroupsAreUnderWayWhileTheNextGathers) {
  run_nccl_ranks(2, {}, [](Communicator& comm) {
    EXPECT_TRUE(comm.sends_in_groups());
    std::vector<std::unique_ptr<Peers>> rounds;
    std::vector<std::vector<Ticket>> tickets;
    for (int round = 0; round < 5; ++round) {
      rounds.push_back(std::make_unique<Peers>(comm));
      tickets.push_back(rounds.back()->post(round));
      comm.flush();
    }
    for (const Ticket ticket : tickets.back()) comm.wait(ticket);
    for (int round = 0; round < 5; ++round) {
      const auto at = static_cast<std::size_t>(round);
      EXPECT_TRUE(comm.done(tickets[at][0])) << "groups are done in their order";
      rounds[at]->expect_received(round);
    }
  });
}

TEST_F(NcclMessages, OtherChannelsLeaveTheHaloAlone) {
  run_nccl_ranks(2, {}, [](Communicator& comm) {
    const int peer = 1 - comm.rank();
    for (const Channel channel : {Channel::weights, Channel::evaluation}) {
      std::byte out{static_cast<unsigned char>(7 + comm.rank())}, in{0};
      const SendMessage send{peer, &out, 1};
      const RecvMessage receive{peer, &in, 1};
      const std::int64_t before = comm.bytes_sent(channel);
      comm.wait(comm.post(channel, {&send, 1}, {&receive, 1}));
      EXPECT_EQ(in, std::byte{static_cast<unsigned char>(7 + peer)});
      EXPECT_EQ(comm.bytes_sent(channel) - before, 1);
    }
    EXPECT_EQ(comm.bytes_sent(Channel::halo), 0);
  });
  EXPECT_THAT(functions_of(0), Not(HasSubstr("Group")));
}

TEST_F(NcclMessages, BytesAreCounted) {
  run_nccl_ranks(3, {}, [](Communicator& comm) {
    Peers peers(comm);
    std::int64_t expected = 0;
    for (int peer = 0; peer < comm.size(); ++peer) {
      if (peer != comm.rank()) expected += static_cast<std::int64_t>(size_of(comm.rank(), peer));
    }
    for (const Ticket ticket : peers.post(0)) comm.wait(ticket);
    EXPECT_EQ(comm.bytes_sent(Channel::halo), expected);
  });
}

TEST_F(NcclMessages, MessagesToOneselfAndUnknownTicketsAreRefused) {
  run_nccl_ranks(2, {}, [](Communicator& comm) {
    std::byte byte{};
    const SendMessage send{comm.rank(), &byte, 1};
    test::expect_error(ErrorCode::usage, "is the rank itself", [&] {
      comm.post(Channel::halo, {&send, 1}, {});
    });
    test::expect_error(ErrorCode::usage, "was never given",
                       [&] { comm.wait({(std::uint64_t{1} << 63) | 1}); });
  });
}

TEST_F(NcclMessages, MoreRanksThanDevicesAreRefused) {
  bool ran = false;
  const Caught caught =
      error_of([&] { run_nccl_ranks(5, {}, [&](Communicator&) { ran = true; }); });
  EXPECT_FALSE(ran);
  EXPECT_EQ(caught.code, ErrorCode::usage);
  EXPECT_EQ(caught.text,
            "transport nccl: 5 ranks need as many CUDA devices, and this process has 4; ranks can "
            "share one by transport threads");
}

TEST_F(NcclMessages, RanksOnOneDeviceAreRefusedByName) {
  test::expect_error(ErrorCode::usage, "ranks 1 and 2 are on one device, 0000:02:00.0", [] {
    run_ranks(3, {}, [](Communicator& host) {
      make_nccl_communicator(host, host.rank() == 2 ? 5 : host.rank(), {});  // 5 % 4 == 1
    });
  });
  EXPECT_THAT(functions_of(0), Not(HasSubstr("ncclCommInit")));
}

TEST_F(NcclMessages, WithoutADeviceNothingBegins) {
  setenv("HELIOGRAPH_EMULATED_DEVICES", "0", 1);
  test::expect_error(ErrorCode::usage, "there is no CUDA device", [] {
    run_ranks(1, {}, [](Communicator& host) { make_nccl_communicator(host, 0, {}); });
  });
}

}  // namespace
}  // namespace heliograph::test
