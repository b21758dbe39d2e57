#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/threads/transport.hpp"
#include "core/copy_bytes.hpp"
#include "core/kernels.hpp"
#include "emulation.hpp"
#include "heliograph/train.hpp"
#include "nccl_run.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"
#include "train/processes.hpp"

// What carries messages between ranks of one process, and what a run over several devices sets up.

namespace heliograph {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

class DeviceCopies : public test::NcclTest {
 protected:
  void TearDown() override {
    for (int from = 0; from < 4; ++from) {
      for (int to = 0; to < 4; ++to) cuda_emulation::lose_copies(from, to, false);
    }
    check_copies_between_devices(4);
    cudaSetDevice(0);
    NcclTest::TearDown();
  }

  struct Run {
    TrainResult result;
    std::vector<std::string> warnings;
  };
  Run run_with_lost(const Pairs& lost, TransportKind kind) {
    for (const auto& [from, to] : lost) cuda_emulation::lose_copies(from, to);
    TrainOptions o = test::small_options(3, 4);
    o.transport.device = DeviceKind::cuda;
    o.transport.kind = kind;
    Run run;
    TrainCallbacks callbacks;
    callbacks.log = [&](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) run.warnings.emplace_back(text);
    };
    run.result = train(data_, o, callbacks);
    for (const auto& [from, to] : lost) cuda_emulation::lose_copies(from, to, false);
    return run;
  }

 private:
  const Dataset data_ = test::make_small_dataset(80, 12, 4, 5);
};

TEST_F(DeviceCopies, ThatWriteNothingAreFoundAndGoThroughTheHost) {
  // With NCCL, evaluation still copies between devices.
  for (const TransportKind kind : {TransportKind::threads, TransportKind::nccl}) {
    const Run right = run_with_lost({}, kind);
    EXPECT_THAT(right.warnings, ::testing::IsEmpty());
    const Run lossy = run_with_lost({{0, 1}, {2, 0}}, kind);
    EXPECT_THAT(lossy.warnings,
                ::testing::ElementsAre(::testing::HasSubstr(
                    "copies between CUDA devices do not arrive (0 to 1, 2 to 0), so messages")));
    ASSERT_EQ(lossy.result.epochs.size(), right.result.epochs.size());
    for (std::size_t e = 0; e < right.result.epochs.size(); ++e) {
      EXPECT_EQ(lossy.result.epochs[e].loss, right.result.epochs[e].loss) << e;
      EXPECT_EQ(lossy.result.epochs[e].test_metric, right.result.epochs[e].test_metric) << e;
    }
    EXPECT_EQ(lossy.result.predictions, right.result.predictions);
  }
}

TEST_F(DeviceCopies, ThatWriteNothingAreFoundWithoutAccessToo) {
  cuda_emulation::let_devices_reach_each_other(false);
  const Run right = run_with_lost({}, TransportKind::threads);
  const Run lossy = run_with_lost({{1, 2}}, TransportKind::threads);
  cuda_emulation::let_devices_reach_each_other(true);
  EXPECT_EQ(lossy.warnings.size(), 1U);
  EXPECT_EQ(lossy.result.predictions, right.result.predictions);
}

TEST_F(DeviceCopies, LongMessagesGoThroughTheHostInPieces) {
  constexpr std::size_t kBytes = (std::size_t{5} << 19) + 3;
  std::vector<std::uint8_t> host(kBytes), back(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) host[i] = static_cast<std::uint8_t>(i * 7 + i / 1000);
  cuda_emulation::lose_copies(0, 1);
  EXPECT_NE(check_copies_between_devices(2), "");
  const auto one = make_cuda_kernels(0, 1);
  MemoryAccount of_one(one->device().memory());
  const Buffer sent(kBytes, MemoryUse::halo, &of_one);
  const auto other = make_cuda_kernels(1, 1);
  MemoryAccount of_other(other->device().memory());
  const Buffer received(kBytes, MemoryUse::halo, &of_other);
  const auto bytes = [](auto& values) { return reinterpret_cast<std::byte*>(values.data()); };
  copy_by_cuda(sent.data(), bytes(host), kBytes);
  copy_by_cuda(received.data(), sent.data(), kBytes);
  copy_by_cuda(bytes(back), received.data(), kBytes);
  EXPECT_EQ(back, host);
}

TEST_F(DeviceCopies, MessagesWithinTheHostAskCudaNothing) {
  ThreadTransportOptions options;
  options.copy = copy_by_cuda;
  options.on_thread = select_cuda_device;
  const std::int64_t asked =
      cuda_emulation::calls("cudaPointerGetAttributes") + cuda_emulation::calls("cudaMemcpyAsync");
  run_ranks(2, options, [](Communicator& comm) {
    for (const std::size_t size : {100U, 1000000U}) {  // One is copied when it is posted.
      std::vector<std::byte> out(size, std::byte{7}), in(size);
      const SendMessage send{1, out.data(), size};
      const RecvMessage receive{0, in.data(), size};
      comm.wait(comm.rank() == 0 ? comm.post(Channel::weights, {&send, 1}, {})
                                 : comm.post(Channel::weights, {}, {&receive, 1}));
      EXPECT_EQ(in, comm.rank() == 1 ? out : std::vector<std::byte>(size));
    }
  });
  EXPECT_EQ(
      cuda_emulation::calls("cudaPointerGetAttributes") + cuda_emulation::calls("cudaMemcpyAsync"),
      asked);
}

// MPI may start CUDA, which reads the variable only then.
TEST(DeviceStart, KernelsForNcclAreLoadedFromTheBeginning) {
  unsetenv("CUDA_MODULE_LOADING");
  TransportOptions transport;
  const Processes alone(transport);
  EXPECT_EQ(std::getenv("CUDA_MODULE_LOADING"), nullptr);
  transport.kind = TransportKind::nccl;
  const Processes with_nccl(transport);  // It has joined nobody, and so not started MPI.
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "EAGER");
  unsetenv("CUDA_MODULE_LOADING");
}

}  // namespace
}  // namespace heliograph
