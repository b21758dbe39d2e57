#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <stdexcept>
#include <thread>

#include "comm/mpi/transport.hpp"
#include "comm/nccl/transport.hpp"
#include "comm/threads/transport.hpp"
#include "support/expect_error.hpp"
#include "support/faulty_communicator.hpp"

namespace heliograph {
namespace {

using test::Caught;
using test::error_of;

ThreadTransportOptions with_timeout(double seconds) {
  ThreadTransportOptions options;
  options.timeout_seconds = seconds;
  return options;
}

void receive_from(Communicator& comm, int peer, Channel channel = Channel::halo) {
  std::byte buffer{};
  const RecvMessage receive{peer, &buffer, 1};
  comm.wait(comm.post(channel, {}, {&receive, 1}));
}

/// Runs three ranks, of which rank 2 does `action` while the others wait for it, and checks that
/// the waits of the others end with Error(peer_lost) and the expected text.
template <class Action>
Caught rank_2_does(Action action) {
  std::atomic<int> released = 0;
  const Caught caught = error_of([&] {
    run_ranks(3, {}, [&](Communicator& comm) {
      if (comm.rank() == 2) {
        action(comm);
        return;
      }
      const Caught mine = error_of([&] { receive_from(comm, 2); });
      EXPECT_EQ(mine.code, ErrorCode::peer_lost);
      EXPECT_NE(mine.text.find("rank 2"), std::string::npos) << mine.text;
      ++released;
      throw Error(mine.code, mine.text);
    });
  });
  EXPECT_EQ(released, 2);
  return caught;
}

TEST(Faults, TheFirstExceptionComesBackWithRankAndProgress) {
  const Caught caught = rank_2_does([](Communicator& comm) {
    comm.set_progress({3, 1});
    throw Error(ErrorCode::numeric, "NaN in the gradient");
  });
  EXPECT_EQ(caught.code, ErrorCode::numeric);
  EXPECT_EQ(caught.text, "rank 2, epoch 3, layer 1: NaN in the gradient");
}

TEST(Faults, ProgressThatIsNotSetIsNotNamed) {
  const Caught caught =
      rank_2_does([](Communicator&) { throw Error(ErrorCode::bad_input, "no such file"); });
  EXPECT_EQ(caught.code, ErrorCode::bad_input);
  EXPECT_EQ(caught.text, "rank 2: no such file");
}

TEST(Faults, OtherExceptionsBecomeErrors) {
  EXPECT_EQ(rank_2_does([](Communicator&) { throw std::bad_alloc(); }).code, ErrorCode::resource);
  const Caught other =
      rank_2_does([](Communicator&) { throw std::runtime_error("something else"); });
  EXPECT_EQ(other.text, "rank 2: something else");
  rank_2_does([](Communicator&) { throw 42; });
}

TEST(Faults, AnExceptionOfASingleRankComesBackToo) {
  const Caught caught = error_of([] {
    run_ranks(1, {}, [](Communicator& comm) {
      comm.set_progress({0, -1});
      throw Error(ErrorCode::interrupted, "stopped");
    });
  });
  EXPECT_EQ(caught.code, ErrorCode::interrupted);
  EXPECT_EQ(caught.text, "rank 0, epoch 0: stopped");
}

TEST(Faults, AbortEndsTheWaitsOfAllRanks) {
  const Caught caught = rank_2_does([](Communicator& comm) {
    comm.set_progress({5, 0});
    comm.abort("the user has had enough");
    comm.abort("a second reason");
    test::expect_error(ErrorCode::peer_lost, "", [&] { receive_from(comm, 0); });
  });
  EXPECT_EQ(caught.code, ErrorCode::peer_lost);
  EXPECT_EQ(caught.text, "rank 2, epoch 5, layer 0: the user has had enough");
}

TEST(Faults, AbortFromAnotherThreadEndsTheWaitOfItsRank) {
  const Caught caught = rank_2_does([](Communicator& comm) {
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      comm.abort("told from outside");
    });
    const Caught mine = error_of([&] { receive_from(comm, 0); });
    other.join();
    EXPECT_EQ(mine.code, ErrorCode::peer_lost);
  });
  EXPECT_EQ(caught.text, "rank 2: told from outside");
}

TEST(Faults, TheCauseOfAnAbortKeepsItsCode) {
  const Caught caught = rank_2_does([](Communicator& comm) {
    comm.abort("cleaning up");
    throw Error(ErrorCode::numeric, "Inf in the loss");
  });
  EXPECT_EQ(caught.code, ErrorCode::numeric);
  EXPECT_EQ(caught.text, "rank 2: Inf in the loss");
}

/// An owner of buffers, which aborts when an exception passes.
struct AbortOnExit {
  ~AbortOnExit() { comm.abort("left with messages in flight"); }
  Communicator& comm;
};

TEST(Faults, TheExceptionThatCausedAnAbortIsTheOneReported) {
  const Caught caught = rank_2_does([](Communicator& comm) {
    const AbortOnExit owner{comm};
    throw std::runtime_error("no such layer");
  });
  EXPECT_EQ(caught.text, "rank 2: no such layer");
}

TEST(Faults, AnAbortOnTheWayOutDoesNotHideADeadline) {
  test::expect_error(ErrorCode::peer_lost, "waited 0.05 s without progress", [] {
    run_ranks(2, with_timeout(0.05), [](Communicator& comm) {
      const AbortOnExit owner{comm};
      receive_from(comm, 1 - comm.rank());
    });
  });
}

TEST(Faults, ADeadlineNamesWhoWaitedForWhomAndWhere) {
  const auto began = std::chrono::steady_clock::now();
  const Caught caught = error_of([] {
    run_ranks(3, with_timeout(0.1), [](Communicator& comm) {
      comm.set_progress({4, 2});
      if (comm.rank() == 1) receive_from(comm, 0, Channel::weights);
      if (comm.rank() != 0) return;
      // Rank 0 goes on computing and never calls wait.
      std::byte buffer{};
      const RecvMessage receive{2, &buffer, 1};
      const Ticket ticket = comm.post(Channel::halo, {}, {&receive, 1});
      while (!comm.done(ticket)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      test::expect_error(ErrorCode::peer_lost, "rank 1, epoch 4, layer 2",
                         [&] { comm.wait(ticket); });
    });
  });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  EXPECT_EQ(caught.code, ErrorCode::peer_lost);
  EXPECT_EQ(caught.text,
            "rank 1, epoch 4, layer 2: waited 0.1 s without progress for bytes from rank 0 on the "
            "weights channel");
  EXPECT_GE(seconds, 0.1);
  EXPECT_LT(seconds, ThreadTransportOptions{}.timeout_seconds / 2);
}

TEST(Faults, ASenderHasADeadlineToo) {
  test::expect_error(ErrorCode::peer_lost, {"waited 0.1 s", "to receive on the evaluation channel"},
                     [] {
                       run_ranks(2, with_timeout(0.1), [](Communicator& comm) {
                         const std::byte buffer{};
                         const SendMessage send{1 - comm.rank(), &buffer, 1};
                         comm.wait(comm.post(Channel::evaluation, {&send, 1}, {}));
                       });
                     });
}

TEST(Faults, BytesThatMoveSlowlyAreNotADeadline) {
  ThreadTransportOptions options = with_timeout(0.05);
  options.link.gbps = 0.01;
  run_ranks(2, options, [](Communicator& comm) {
    std::vector<std::byte> buffer(250'000);  // 0.2 s.
    if (comm.rank() == 0) {
      const SendMessage send{1, buffer.data(), buffer.size()};
      comm.wait(comm.post(Channel::halo, {&send, 1}, {}));
    } else {
      const RecvMessage receive{0, buffer.data(), buffer.size()};
      comm.wait(comm.post(Channel::halo, {}, {&receive, 1}));
    }
  });
}

TEST(Faults, WaitingForARankThatHasEndedFailsAtOnce) {
  test::expect_error(ErrorCode::peer_lost,
                     {"rank 1: ", "bytes from rank 0 on the halo channel", "has ended"}, [] {
                       run_ranks(2, {}, [](Communicator& comm) {
                         if (comm.rank() == 1) receive_from(comm, 0);
                       });
                     });
}

TEST(Faults, ATicketThatWasNeverGivenIsRefused) {
  test::expect_error(ErrorCode::usage, "ticket 7 was never given", [] {
    run_ranks(2, {}, [](Communicator& comm) {
      test::expect_error(ErrorCode::usage, "", [&] { comm.done(Ticket{1}); });
      comm.wait(Ticket{7});
    });
  });
}

TEST(Faults, EndingWithMessagesInFlightIsAnError) {
  std::byte buffer{};
  const Caught caught = error_of([&] {
    run_ranks(2, {}, [&](Communicator& comm) {
      const RecvMessage receive{1, &buffer, 1};
      if (comm.rank() == 0) comm.post(Channel::halo, {}, {&receive, 1});
    });
  });
  EXPECT_EQ(caught.code, ErrorCode::usage);
  EXPECT_EQ(caught.text, "rank 0: the rank has ended with messages in flight");
}

TEST(Faults, SizesThatDisagreeNameRanksChannelAndSizes) {
  std::atomic<int> failed = 0;
  const Caught caught = error_of([&] {
    run_ranks(2, {}, [&](Communicator& comm) {
      std::array<std::byte, 12> buffer{};
      const SendMessage send{1, buffer.data(), 12};
      const RecvMessage receive{0, buffer.data(), 8};
      test::expect_error(ErrorCode::peer_lost, "", [&] {
        comm.wait(comm.rank() == 0 ? comm.post(Channel::weights, {&send, 1}, {})
                                   : comm.post(Channel::weights, {}, {&receive, 1}));
      });
      ++failed;
    });
  });
  EXPECT_EQ(failed, 2);
  test::expect_error(ErrorCode::peer_lost,
                     "rank 0 sends 12 bytes on the weights channel, rank 1 expects 8", caught);
}

TEST(Faults, AbortReturnsOnceNoBufferIsTouched) {
  // A sanitizer reports it if a byte moves after the buffers are gone.
  for (int repeat = 0; repeat < 20; ++repeat) {
    const Caught caught = error_of([&] {
      run_ranks(4, {}, [&](Communicator& comm) {
        std::vector<std::vector<std::byte>> out(4), in(4);
        std::vector<SendMessage> sends;
        std::vector<RecvMessage> receives;
        for (int peer = 0; peer < 4; ++peer) {
          if (peer == comm.rank()) continue;
          const auto p = static_cast<std::size_t>(peer);
          out[p].resize(1 << 20);
          in[p].resize(1 << 20);
          sends.push_back({peer, out[p].data(), out[p].size()});
          receives.push_back({peer, in[p].data(), in[p].size()});
        }
        const Ticket ticket = comm.post(Channel::halo, sends, receives);
        if (comm.rank() == 3) {
          std::this_thread::sleep_for(std::chrono::microseconds(100 * repeat));
          comm.abort("enough");
          return;
        }
        comm.wait(ticket);
        receive_from(comm, 3);
      });
    });
    EXPECT_EQ(caught.text, "rank 3: enough");
  }
}

TEST(Faults, InjectedFaultsFailOnTheCallThatWasAskedFor) {
  for (const int call : {1, 2, 3, 4}) {
    const Caught caught = error_of([&] {
      run_ranks(2, {}, [&](Communicator& inner) {
        test::Faults faults;
        faults.fail_on_call = inner.rank() == 1 ? call : 0;
        faults.code = ErrorCode::numeric;
        test::FaultyCommunicator comm(inner, faults);
        comm.set_progress({1, -1});
        std::byte out{1}, in{};
        for (int round = 0; round < 2; ++round) {
          const SendMessage send{1 - comm.rank(), &out, 1};
          const RecvMessage receive{1 - comm.rank(), &in, 1};
          Ticket ticket;
          try {
            ticket = comm.post(Channel::halo, {&send, 1}, {&receive, 1});
            comm.wait(ticket);
          } catch (...) {
            comm.abort("stopping");
            throw;
          }
        }
      });
    });
    test::expect_error(ErrorCode::numeric, "rank 1, epoch 1: injected fault on call", caught);
    EXPECT_EQ(caught.text.back(), static_cast<char>('0' + call));
  }
}

TEST(Faults, TransportsThatAreNotBuiltSaySo) {
  const auto body = [](Communicator&) {};
  if (!mpi_built()) {
    test::expect_error(ErrorCode::usage, {"transport mpi", "transport threads"},
                       [&] { MpiGroup({}).run(body); });
  }
  if (!nccl_built()) {
    test::expect_error(ErrorCode::usage, {"transport nccl", "transport threads"},
                       [&] { run_nccl_ranks(2, {}, body); });
  }
}

}  // namespace
}  // namespace heliograph
