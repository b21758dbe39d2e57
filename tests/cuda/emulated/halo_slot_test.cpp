// What is received into page-locked memory is copied to the device from there, later, so nothing
// may be received there anew before. The emulated device copies only when somebody waits for it.

#include "comm/exchange/halo_slot.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/cuda/cuda_device.hpp"
#include "emulation.hpp"

namespace heliograph {
namespace {

/// Reaches memory of the host only; each message has arrived as soon as it is posted, and is full
/// of the number of its batch.
class HostMessages final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Ticket post(Channel, std::span<const SendMessage>,
              std::span<const RecvMessage> receives) override {
    ++batches;
    for (const RecvMessage& receive : receives) std::memset(receive.data, batches, receive.bytes);
    return {1};
  }
  void wait(Ticket) override {}
  bool done(Ticket) override { return true; }
  void abort(const std::string&) noexcept override {}
  std::int64_t bytes_sent(Channel) const override { return 0; }

  int batches = 0;
};

class StagedSlot : public ::testing::TestWithParam<Channel> {
 protected:
  static constexpr std::size_t kBytes = 1000;

  void SetUp() override { cuda_emulation::repair(); }

  /// A batch of one message that fills the buffer.
  void receive() {
    std::byte* buffer = slot_.receive_buffer(kBytes);
    const RecvMessage message{1, buffer, kBytes};
    slot_.post_receives({&message, 1});
  }
  std::vector<char> on_device() {
    std::vector<char> bytes(kBytes);
    device_.download(bytes.data(), slot_.received(), kBytes);
    return bytes;
  }

  HostMessages comm_;
  cuda::CudaDevice device_{0, 1};
  MemoryAccount account_{device_.memory()};
  HaloSlot slot_{comm_, GetParam(), device_, MemoryUse::halo, &account_};
};

TEST_P(StagedSlot, ReceivesAnewOnlyWhenTheLastCopyIsDone) {
  receive();
  slot_.wait_for_receives();
  receive();  // Into the memory that the copy reads.
  EXPECT_EQ(on_device(), std::vector<char>(kBytes, 1));
  slot_.wait_for_receives();
  EXPECT_EQ(on_device(), std::vector<char>(kBytes, 2));
}

TEST_P(StagedSlot, KeepsWhatTheCopyReadsUntilItIsDone) {
  receive();
  slot_.wait_for_receives();
  const std::byte* begin = slot_.received();
  slot_.receive_buffer(100 * kBytes);  // Larger: other memory on the host, too.
  EXPECT_NE(slot_.received(), begin);
  receive();
  slot_.wait_for_receives();
  EXPECT_EQ(on_device(), std::vector<char>(kBytes, 2));
}

INSTANTIATE_TEST_SUITE_P(All, StagedSlot, ::testing::Values(Channel::halo, Channel::evaluation),
                         [](const auto& channel) {
                           return std::string(channel_name(channel.param));
                         });

TEST(StagedHalo, IsCopiedOnceByTheHost) {
  cuda_emulation::repair();
  HostMessages comm;
  cuda::CudaDevice device(0, 1);
  MemoryAccount account(device.memory());
  HaloSlot slot(comm, Channel::halo, device, MemoryUse::halo, &account);
  // More than the stages of Device::upload hold: through those it would be several copies.
  constexpr std::size_t kLarge = std::size_t{1} << 20;
  const RecvMessage message{1, slot.receive_buffer(kLarge), kLarge};
  slot.post_receives({&message, 1});
  const std::int64_t copies = cuda_emulation::calls("cudaMemcpyAsync");
  const std::int64_t pinned = cuda_emulation::calls("cudaMallocHost");
  slot.wait_for_receives();
  EXPECT_EQ(cuda_emulation::calls("cudaMemcpyAsync") - copies, 1);
  EXPECT_EQ(cuda_emulation::calls("cudaMallocHost") - pinned, 0);
}

}  // namespace
}  // namespace heliograph
