// What ends a run over NCCL, and that it ends: by name, on every rank, in time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "comm/threads/transport.hpp"
#include "cuda/emulated/device_bytes.hpp"
#include "cuda/emulated/nccl_run.hpp"
#include "support/expect_error.hpp"

namespace heliograph::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The longest wait where none is meant to last. What ends a run does so before half of it.
constexpr double kNcclPatience = 60;

NcclTransportOptions limits(double timeout, double abort = 2) {
  NcclTransportOptions options;
  options.timeout_seconds = timeout;
  options.abort_seconds = abort;
  return options;
}

/// 100 bytes each way with every other rank.
void exchange(Communicator& comm, int epoch) {
  comm.set_progress({epoch, 1});
  DeviceBytes out(100);
  DeviceBytes in(400);
  out.fill(1);
  std::vector<SendMessage> sends;
  std::vector<RecvMessage> receives;
  for (int peer = 0; peer < comm.size(); ++peer) {
    if (peer == comm.rank()) continue;
    sends.push_back({peer, out.data(), 100});
    receives.push_back({peer, in.data() + 100 * peer, 100});
  }
  comm.wait(comm.post(Channel::halo, sends, receives));
}

/// What each rank's body threw, as it saw it.
class Ends {
 public:
  /// `body` of a rank, which must throw.
  template <class Body>
  void record(const Communicator& comm, Body body) {
    try {
      body();
    } catch (const Error& error) {
      const std::lock_guard lock(mutex_);
      texts_[static_cast<std::size_t>(comm.rank())] = error.what();
      throw;
    }
  }
  std::string of(int rank) const { return texts_[static_cast<std::size_t>(rank)].value_or("none"); }

 private:
  std::mutex mutex_;
  std::array<std::optional<std::string>, 4> texts_;
};

class NcclFaults : public NcclTest {
 protected:
  void TearDown() override {
    nccl_emulation::hang_aborts(false);
    NcclTest::TearDown();
  }
};

TEST_F(NcclFaults, AnErrorOfNcclEndsAllRanksByName) {
  nccl_emulation::fail_group(1, 3, ncclSystemError);
  Ends ends;
  const Caught caught = error_of([&] {
    run_nccl_ranks(3, limits(20), [&](Communicator& comm) {
      ends.record(comm, [&] {
        for (int epoch = 0; epoch < 5; ++epoch) exchange(comm, epoch);
      });
    });
  });
  EXPECT_EQ(caught.code, ErrorCode::peer_lost);
  EXPECT_THAT(caught.text,
              AllOf(HasSubstr("rank 1, epoch 2, layer 1: NCCL cannot continue: unhandled "
                              "system error"),
                    HasSubstr("bytes from rank 0 on the halo channel")));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(ends.of(rank), HasSubstr("rank 1, epoch 2, layer 1: NCCL cannot continue"));
    EXPECT_THAT(functions_of(rank), HasSubstr("ncclCommAbort"));
    EXPECT_THAT(functions_of(rank), Not(HasSubstr("ncclCommDestroy")));
  }
}

TEST_F(NcclFaults, ACallThatIsRefusedEndsAllRanks) {
  for (const char* function : {"ncclSend", "ncclRecv", "ncclGroupEnd"}) {
    nccl_emulation::reset();
    nccl_emulation::fail_call(0, function, 2, ncclInvalidArgument);
    Ends ends;
    const Caught caught = error_of([&] {
      run_nccl_ranks(2, limits(20), [&](Communicator& comm) {
        ends.record(comm, [&] {
          for (int epoch = 0; epoch < 5; ++epoch) exchange(comm, epoch);
        });
      });
    });
    EXPECT_THAT(caught.text, HasSubstr("rank 0, epoch 1, layer 1: NCCL cannot start a group of "
                                       "messages: invalid argument"))
        << function;
    EXPECT_THAT(ends.of(1), HasSubstr("rank 0, epoch 1, layer 1")) << function;
  }
}

TEST_F(NcclFaults, ThePeerThatNeverComesIsNamed) {
  const double began = now();
  test::expect_error(ErrorCode::peer_lost,
                     "rank 0, epoch 1, layer 1: waited 0.3 s without progress for "
                     "bytes from rank 1 on the halo channel",
                     [&] {
                       run_nccl_ranks(2, limits(0.3), [&](Communicator& comm) {
                         exchange(comm, 0);
                         if (comm.rank() == 0) exchange(comm, 1);
                       });
                     });
  EXPECT_GT(now() - began, 0.3);
  EXPECT_LT(now() - began, kNcclPatience / 2);
  EXPECT_THAT(functions_of(0), HasSubstr("ncclCommAbort"));
}

TEST_F(NcclFaults, SizesThatDisagreeStall) {
  test::expect_error(ErrorCode::peer_lost, "without progress", [&] {
    run_nccl_ranks(2, limits(0.3), [&](Communicator& comm) {
      DeviceBytes bytes(100);
      bytes.fill(1);
      const SendMessage send{1, bytes.data(), 99};
      const RecvMessage receive{0, bytes.data(), 100};
      comm.wait(comm.rank() == 0 ? comm.post(Channel::halo, {&send, 1}, {})
                                 : comm.post(Channel::halo, {}, {&receive, 1}));
    });
  });
}

TEST_F(NcclFaults, ConnectingHasADeadline) {
  nccl_emulation::set_polls(nccl_emulation::kForever);
  const double began = now();
  test::expect_error(ErrorCode::peer_lost, "transport nccl: the ranks did not connect within 0.3 s",
                     [&] { run_nccl_ranks(2, limits(0.3), [](Communicator&) { FAIL(); }); });
  EXPECT_LT(now() - began, kNcclPatience / 2);
}

TEST_F(NcclFaults, ARankThatCannotConnectEndsTheOthersThatTry) {
  nccl_emulation::fail_call(1, "ncclCommInitRankConfig", 1, ncclSystemError);
  const double began = now();
  const Caught caught =
      error_of([&] { run_nccl_ranks(3, limits(kNcclPatience), [](Communicator&) { FAIL(); }); });
  EXPECT_THAT(caught.text, HasSubstr("rank 1: NCCL cannot connect the ranks: unhandled system "
                                     "error"));
  EXPECT_LT(now() - began, kNcclPatience / 2);
}

TEST_F(NcclFaults, AnExceptionOfOneRankEndsTheOthersWaits) {
  Ends ends;
  const double began = now();
  const Caught caught = error_of([&] {
    run_nccl_ranks(3, limits(kNcclPatience), [&](Communicator& comm) {
      ends.record(comm, [&] {
        exchange(comm, 0);
        if (comm.rank() == 2) {
          comm.set_progress({1, 0});
          throw Error(ErrorCode::numeric, "a value is not a number");
        }
        exchange(comm, 1);
      });
    });
  });
  EXPECT_EQ(caught.code, ErrorCode::numeric);
  EXPECT_EQ(caught.text, "rank 2, epoch 1, layer 0: a value is not a number");
  EXPECT_EQ(ends.of(0), caught.text);
  EXPECT_EQ(ends.of(1), caught.text);
  EXPECT_LT(now() - began, kNcclPatience / 2);
}

TEST_F(NcclFaults, AnAbortThatHangsDoesNotHangTheRun) {
  nccl_emulation::hang_aborts(true);
  const double began = now();
  test::expect_error(ErrorCode::peer_lost, "rank 1, epoch 0, layer 1: enough", [&] {
    run_nccl_ranks(2, limits(kNcclPatience, 0.3), [&](Communicator& comm) {
      exchange(comm, 0);
      if (comm.rank() == 1) comm.abort("enough");
      exchange(comm, 1);
    });
  });
  EXPECT_GT(now() - began, 0.3);
  EXPECT_LT(now() - began, kNcclPatience / 2);
  EXPECT_TRUE(nccl_abort_hangs());
}

TEST_F(NcclFaults, AbortFromAnotherThreadEndsAWait) {
  const Caught caught = error_of([&] {
    run_nccl_ranks(2, limits(kNcclPatience), [&](Communicator& comm) {
      if (comm.rank() == 1) {
        comm.wait(comm.post(Channel::weights, {}, {}));
        while (true) comm.throw_if_failed();
      }
      std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        comm.abort("stopped from outside");
      });
      try {
        exchange(comm, 0);
      } catch (...) {
        other.join();
        throw;
      }
      other.join();
      FAIL();
    });
  });
  EXPECT_THAT(caught.text, HasSubstr("rank 0, epoch 0, layer 1: stopped from outside"));
}

TEST_F(NcclFaults, MessagesInFlightAtTheEndAreAFailure) {
  test::expect_error(ErrorCode::peer_lost, "the rank has ended with messages in flight", [&] {
    run_nccl_ranks(2, limits(20), [&](Communicator& comm) {
      static std::byte* lasting = [] {
        std::byte* bytes = nullptr;
        cudaMallocAsync(&bytes, 100, cudaStreamPerThread);
        return bytes;
      }();
      const RecvMessage receive{1 - comm.rank(), lasting, 100};
      (void)comm.post(Channel::halo, {}, {&receive, 1});
      comm.flush();
    });
  });
}

TEST_F(NcclFaults, GroupsThatSplitAnExchangeAlikeHoldEachOtherUp) {
  // Why sends_in_groups is there: each first group waits for what is in the other's second one.
  const Caught caught = error_of([&] {
    run_nccl_ranks(2, limits(0.3), [&](Communicator& comm) {
      DeviceBytes out(10), in(10);
      out.fill(1);
      const SendMessage send{1 - comm.rank(), out.data(), 10};
      const RecvMessage receive{1 - comm.rank(), in.data(), 10};
      const Ticket received = comm.post(Channel::halo, {}, {&receive, 1});
      comm.flush();
      (void)comm.post(Channel::halo, {&send, 1}, {});
      comm.flush();
      comm.wait(received);
    });
  });
  EXPECT_THAT(caught.text, HasSubstr("without progress"));
}

}  // namespace
}  // namespace heliograph::test
