// A rank's two communicators of NCCL, for halos and for weights: neither keeps the other from
// ending, and both launch their groups in the order that all ranks have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "comm/collectives.hpp"
#include "cuda/emulated/device_bytes.hpp"
#include "cuda/emulated/nccl_run.hpp"
#include "support/expect_error.hpp"

namespace heliograph::test {
namespace {

NcclTransportOptions two_links(double abort_seconds) {
  NcclTransportOptions options;
  options.moves_weights = true;
  options.abort_seconds = abort_seconds;
  return options;
}

class NcclLinks : public NcclTest {
 protected:
  void TearDown() override {
    nccl_emulation::hang_aborts(false);
    NcclTest::TearDown();
  }
};

TEST_F(NcclLinks, AreAbortedTogetherSinceAnAbortWaitsForTheDevice) {
  const Caught caught = error_of([] {
    run_nccl_ranks(2, two_links(10), [](Communicator& comm) {
      std::byte go{};
      if (comm.rank() == 1) {
        const RecvMessage receive{0, &go, 1};
        comm.wait(comm.post(Channel::evaluation, {}, {&receive, 1}));
        throw Error(ErrorCode::numeric, "a value is not a number");
      }
      DeviceBytes in(100);
      const RecvMessage receive{1, in.data(), 100, true};
      const Ticket ticket = comm.post(Channel::weights, {}, {&receive, 1});
      comm.flush();
      while (functions_of(0).find("ncclGroupEnd") == std::string::npos) comm.throw_if_failed();
      const SendMessage send{1, &go, 1};
      (void)comm.post(Channel::evaluation, {&send, 1}, {});
      comm.wait(ticket);
    });
  });
  EXPECT_EQ(caught.text, "rank 1: a value is not a number");
  EXPECT_FALSE(cuda::devices_abandoned()) << "one abort waits for what the other one ends";
}

TEST_F(NcclLinks, WhoseAbortsHangAreGivenUp) {
  constexpr double kAbortSeconds = 0.3;
  nccl_emulation::hang_aborts(true);
  std::chrono::duration<double> took{};
  test::expect_error(ErrorCode::peer_lost, "rank 0: enough", [&] {
    run_nccl_ranks(2, two_links(kAbortSeconds), [&](Communicator& comm) {
      barrier(comm, Channel::evaluation);
      if (comm.rank() == 1) {
        while (true) comm.throw_if_failed();
      }
      const auto began = std::chrono::steady_clock::now();
      comm.abort("enough");
      took = std::chrono::steady_clock::now() - began;
    });
  });
  EXPECT_GE(took.count(), kAbortSeconds);
  EXPECT_TRUE(cuda::devices_abandoned());
}

// NCCL takes up a group late, so that a thread for each communicator would pass the other one.
TEST_F(NcclLinks, LaunchGroupsInTheOrderOfTheFlushes) {
  nccl_emulation::set_polls(1000);
  run_nccl_ranks(2, two_links(10), [](Communicator& comm) {
    const int peer = 1 - comm.rank();
    DeviceBytes out(50), in(250);
    out.fill(1);
    std::vector<Ticket> tickets;
    using enum Channel;
    for (const Channel channel : {halo, halo, weights, halo, weights}) {
      const std::size_t i = tickets.size();
      const SendMessage send{peer, out.data(), 10 * (i + 1), true};
      const RecvMessage receive{peer, in.data() + 50 * i, 10 * (i + 1), true};
      tickets.push_back(comm.post(channel, {&send, 1}, {&receive, 1}));
      comm.flush();
    }
    for (const Ticket ticket : tickets) comm.wait(ticket);
  });
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::size_t> sent;
    for (const nccl_emulation::Call& call : nccl_emulation::calls_of(rank)) {
      if (call.function == "ncclSend") sent.push_back(call.bytes);
    }
    EXPECT_THAT(sent, ::testing::ElementsAre(10, 20, 30, 40, 50)) << "rank " << rank;
  }
}

}  // namespace
}  // namespace heliograph::test
