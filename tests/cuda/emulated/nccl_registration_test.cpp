// Halo messages in memory that is registered with NCCL: the same bits, and no waits that never end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "comm/threads/transport.hpp"
#include "core/kernels.hpp"
#include "cuda/emulated/nccl_run.hpp"
#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

namespace heliograph::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::int64_t calls_of(int rank, const std::string& function) {
  const std::vector<nccl_emulation::Call> calls = nccl_emulation::calls_of(rank);
  return std::count_if(calls.begin(), calls.end(),
                       [&](const nccl_emulation::Call& call) { return call.function == function; });
}

TrainOptions options(int ranks, int staleness) {
  TrainOptions o = test::small_options(ranks, 6);
  o.model.layers = 3;
  o.model.hidden = 12;
  o.transport.device = DeviceKind::cuda;
  o.transport.kind = TransportKind::nccl;
  o.transport.nccl_register = true;
  o.exchange.bits_forward = Bits::two;
  o.exchange.bits_backward = Bits::four;
  o.exchange.staleness = staleness;
  return o;
}

class NcclRegistration : public NcclTest {
 protected:
  void SetUp() override {
    NcclTest::SetUp();
    live_before_ = cuda_emulation::live_bytes();
  }
  void TearDown() override {
    nccl_emulation::hang_aborts(false);
    NcclTest::TearDown();
  }
  void expect_no_memory_left() const { EXPECT_EQ(cuda_emulation::live_bytes(), live_before_); }

  const Dataset data_ = test::make_small_dataset(80, 12, 4, 5);
  std::size_t live_before_ = 0;
};

TEST_F(NcclRegistration, HasTheBitsOfRunsWithout) {
  struct Ranks {
    int ranks, staleness;
  };
  for (const auto [ranks, staleness] : {Ranks{1, 0}, Ranks{2, 0}, Ranks{2, 2}, Ranks{4, 2}}) {
    TrainOptions o = options(ranks, staleness);
    o.transport.nccl_register = false;
    const TrainResult plain = train(data_, o);
    EXPECT_EQ(calls_of(0, "ncclCommRegister"), 0);
    nccl_emulation::reset();
    nccl_emulation::set_polls(3);
    o.transport.nccl_register = true;
    const TrainResult registered = train(data_, o);
    ASSERT_EQ(registered.epochs.size(), plain.epochs.size());
    for (std::size_t e = 0; e < plain.epochs.size(); ++e) {
      EXPECT_EQ(registered.epochs[e].loss, plain.epochs[e].loss)
          << ranks << " ranks, S = " << staleness << ", epoch " << e;
    }
    EXPECT_EQ(registered.predictions, plain.predictions);
    EXPECT_EQ(registered.memory.halo, plain.memory.halo);
    for (int rank = 0; rank < ranks; ++rank) {
      // A single rank sends nothing. At S = 0 all exchanges share two buffers, else each of the
      // four of an epoch has two in three slots.
      const std::int64_t made = calls_of(rank, "ncclCommRegister");
      EXPECT_EQ(made, ranks == 1 ? 0 : staleness == 0 ? 2 : 2 * 3 * 4);
      EXPECT_EQ(calls_of(rank, "ncclCommDeregister"), made);
    }
    EXPECT_EQ(nccl_emulation::violations(), std::vector<std::string>{});
    nccl_emulation::reset();
    expect_no_memory_left();
  }
}

TEST_F(NcclRegistration, HappensBeforeTheFirstEpoch) {
  std::vector<std::int64_t> seen;
  TrainCallbacks callbacks;
  callbacks.on_epoch = [&](const EpochReport&) {
    seen.push_back(cuda_emulation::calls("ncclMemAlloc"));
    return EpochAction::proceed;
  };
  const std::int64_t before = cuda_emulation::calls("ncclMemAlloc");
  train(data_, options(3, 2), callbacks);
  ASSERT_EQ(seen.size(), 6U);
  EXPECT_GT(seen.front(), before);
  EXPECT_EQ(seen.back(), seen.front());
}

TEST_F(NcclRegistration, ThatFailsIsNamed) {
  nccl_emulation::fail_call(1, "ncclCommRegister", 2, ncclSystemError);
  const Caught caught = error_of([&] { train(data_, options(3, 2)); });
  EXPECT_EQ(caught.code, ErrorCode::resource);
  EXPECT_THAT(caught.text, AllOf(HasSubstr("rank 1, epoch 0, layer 0: NCCL cannot register "),
                                 HasSubstr(" bytes for halo messages: unhandled system error")));
  expect_no_memory_left();
}

TEST_F(NcclRegistration, WithoutMemoryIsNamed) {
  cuda_emulation::fail_call("ncclMemAlloc", 1, cudaErrorMemoryAllocation);
  const Caught caught = error_of([&] { train(data_, options(2, 0)); });
  EXPECT_EQ(caught.code, ErrorCode::resource);
  EXPECT_THAT(caught.text, AllOf(HasSubstr("NCCL cannot allocate "), HasSubstr(" bytes for halo")));
  expect_no_memory_left();
}

/// The groups of the two epochs that a stale run rehearses.
constexpr int kRehearsed = 8;

TEST_F(NcclRegistration, EndsWithMessagesInFlightByName) {
  nccl_emulation::fail_group(1, kRehearsed + 14, ncclSystemError);
  const Caught caught = error_of([&] { train(data_, options(3, 2)); });
  EXPECT_THAT(caught.text,
              AllOf(HasSubstr("rank 1, epoch 3, layer 2: "), HasSubstr("NCCL cannot continue")));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(calls_of(rank, "ncclCommAbort"), 2) << rank;  // Of halos and of weights.
    EXPECT_EQ(calls_of(rank, "ncclCommDeregister"), 0) << rank;
  }
  EXPECT_FALSE(cuda::devices_abandoned());
  expect_no_memory_left();
}

TEST_F(NcclRegistration, DoesNotWaitForAnAbortThatHangs) {
  nccl_emulation::hang_aborts(true);
  nccl_emulation::fail_group(0, kRehearsed + 9, ncclSystemError);
  const TrainOptions hangs = options(2, 2);
  const auto began = std::chrono::steady_clock::now();
  const Caught caught = error_of([&] { train(data_, hangs); });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_LT(took.count(), hangs.transport.timeout_seconds / 2);
  EXPECT_THAT(caught.text, HasSubstr("rank 0, epoch 2, layer 1: "));
  EXPECT_TRUE(devices_hang());
  EXPECT_GT(cuda_emulation::live_bytes(), live_before_) << "what may still be written to was freed";

  // Whoever goes on all the same is told, and does not wait.
  for (const TransportKind kind : {TransportKind::nccl, TransportKind::threads}) {
    TrainOptions o = options(2, 0);
    o.transport.kind = kind;
    o.transport.nccl_register = false;
    test::expect_error(ErrorCode::resource, "this process must end", [&] { train(data_, o); });
  }
}

TEST_F(NcclRegistration, IsRefusedWhileMessagesAreInFlight) {
  NcclTransportOptions o;
  o.registers_buffers = true;
  test::expect_error(ErrorCode::usage, "asked for while messages are in flight", [&] {
    run_nccl_ranks(2, o, [&](Communicator& comm) {
      EXPECT_EQ(comm.message_memory(Channel::weights), nullptr);
      MemorySource* memory = comm.message_memory(Channel::halo);
      ASSERT_NE(memory, nullptr);
      MemoryAccount account(memory);
      const Buffer in(100, MemoryUse::halo, &account);
      const RecvMessage receive{1 - comm.rank(), in.data(), 100};
      (void)comm.post(Channel::halo, {}, {&receive, 1});
      const Buffer more(100, MemoryUse::halo, &account);
    });
  });
  expect_no_memory_left();
}

TEST_F(NcclRegistration, NeedsNccl) {
  TrainOptions o = options(2, 0);
  o.transport.kind = TransportKind::threads;
  const Caught caught = error_of([&] { train(data_, o); });
  EXPECT_EQ(caught.code, ErrorCode::usage);
  EXPECT_EQ(caught.text, "nccl-register needs transport nccl");
}

/// What the emulation says of memory that is treated as it must not be.
class RegistrationMisuse : public ::testing::Test {
 protected:
  void SetUp() override {
    cuda_emulation::repair();
    nccl_emulation::reset();
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclCommInitRankConfig(&comm_, 1, id, 0, &config);
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) ncclCommGetAsyncError(comm_, &state);
    ncclMemAlloc(&memory_, 256);
    ncclCommRegister(comm_, memory_, 256, &handle_);
    ASSERT_EQ(nccl_emulation::violations(), std::vector<std::string>{});
  }
  void TearDown() override {
    EXPECT_EQ(nccl_emulation::violations().size(), 1U);
    ncclCommDeregister(comm_, handle_);
    ncclMemFree(memory_);
    nccl_emulation::reset();
  }
  static std::string said() {
    const std::vector<std::string> all = nccl_emulation::violations();
    return all.empty() ? "nothing" : all.front();
  }

  ncclComm_t comm_ = nullptr;
  void* memory_ = nullptr;
  void* handle_ = nullptr;
};

TEST_F(RegistrationMisuse, FreeingWhatIsRegistered) {
  EXPECT_NE(ncclMemFree(memory_), ncclSuccess);
  EXPECT_EQ(said(), "ncclMemFree of what is registered");
}

TEST_F(RegistrationMisuse, RegisteringMemoryOfOthers) {
  int host = 0;
  void* handle = nullptr;
  EXPECT_NE(ncclCommRegister(comm_, &host, sizeof(host), &handle), ncclSuccess);
  EXPECT_EQ(said(), "ncclCommRegister of what ncclMemAlloc did not give");
}

TEST_F(RegistrationMisuse, RegisteringMoreThanThereIs) {
  void* handle = nullptr;
  EXPECT_NE(ncclCommRegister(comm_, memory_, 257, &handle), ncclSuccess);
  EXPECT_EQ(said(), "ncclCommRegister of what ncclMemAlloc did not give");
}

TEST_F(RegistrationMisuse, DeregisteringTwice) {
  EXPECT_EQ(ncclCommDeregister(comm_, handle_), ncclSuccess);
  EXPECT_NE(ncclCommDeregister(comm_, handle_), ncclSuccess);
  EXPECT_EQ(said(), "ncclCommDeregister of what is not registered");
}

TEST_F(RegistrationMisuse, LeavingItAtTheEnd) {
  ncclCommFinalize(comm_);
  ncclCommDestroy(comm_);
  EXPECT_EQ(said(), "ncclCommDestroy with registered buffers");
}

}  // namespace
}  // namespace heliograph::test
