// One rank that sends to itself: every call to NCCL that a run makes, on one device.

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "comm/nccl/link.hpp"
#include "comm/nccl/transport.hpp"
#include "core/cuda/runtime.hpp"
#include "cuda/device_arrays.hpp"

namespace heliograph {
namespace {

constexpr std::size_t kMessageBytes = 100000;
constexpr double kAbortSeconds = 30;

class NcclSelf : public TwinTest {
 protected:
  /// Polls until `holds`, but not for ever.
  static void wait_for(const char* what, const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!holds()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << what << " takes longer than 60 s";
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  static void connect(NcclLink& link) {
    link.connect(NcclLink::make_id(), 0, 1);
    wait_for("connecting", [&] { return link.ready(); });
  }
  /// Sends `bytes` of two pieces to itself as one group, between the device's work before and
  /// after.
  void exchange(NcclLink& link, std::byte* from, std::byte* to, std::size_t bytes) {
    const std::size_t half = bytes / 2;
    const SendMessage sends[] = {{0, from, half}, {0, from + half, bytes - half}};
    const RecvMessage receives[] = {{0, to, half}, {0, to + half, bytes - half}};
    link.launch(sends, receives, cuda->device().queue());
    ++groups_;
    wait_for("launching a group", [&] { return link.launched() == groups_; });
    link.join(groups_, *cuda->device().queue(), look_);
  }
  static std::vector<std::uint8_t> pattern(int seed) {
    std::vector<std::uint8_t> bytes(kMessageBytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::uint8_t>((i * 31 + i / 251 + static_cast<std::size_t>(seed)));
    }
    return bytes;
  }
  /// Fills `from`, sends it to `to`, and compares.
  void expect_moved(NcclLink& link, std::byte* from, std::byte* to, int seed) {
    const std::vector<std::uint8_t> sent = pattern(seed);
    cuda->device().upload(from, sent.data(), sent.size());
    exchange(link, from, to, sent.size());
    std::vector<std::uint8_t> got(sent.size());
    cuda->device().download(got.data(), to, got.size());
    EXPECT_EQ(got, sent) << "group " << seed;
    EXPECT_TRUE(link.oldest_begins());
    wait_for("taking a group", [&] { return link.take_done(); });
    EXPECT_FALSE(link.take_done());
  }

 private:
  const std::function<void(bool)> look_ = [](bool) {};
  std::uint64_t groups_ = 0;
};

TEST_F(NcclSelf, GroupsArriveAndTheRankLeaves) {
  const DeviceArray<std::uint8_t> from = on_device(pattern(0)), to = on_device(pattern(1));
  NcclLink link(0);
  connect(link);
  for (int group = 2; group < 5; ++group) {
    expect_moved(link, reinterpret_cast<std::byte*>(from.data()),
                 reinterpret_cast<std::byte*>(to.data()), group);
  }
  link.leave();
  wait_for("leaving", [&] { return link.ready(); });
  link.close();
  EXPECT_FALSE(link.given_up());
}

TEST_F(NcclSelf, RegisteredMemoryIsSentAndGivenBack) {
  if (!NcclLink::registers()) GTEST_SKIP() << "this NCCL registers no memory";
  NcclLink link(0);
  connect(link);
  std::byte* from = link.take_registered(kMessageBytes);
  std::byte* to = link.take_registered(kMessageBytes);
  wait_for("registering", [&] { return link.ready(); });
  expect_moved(link, from, to, 7);
  link.give_back_registered(from, kAbortSeconds);
  link.give_back_registered(to, kAbortSeconds);
  link.leave();
  wait_for("leaving", [&] { return link.ready(); });
  link.close();
}

TEST_F(NcclSelf, AbortReturns) {
  const DeviceArray<std::uint8_t> from = on_device(pattern(0)), to = on_device(pattern(1));
  NcclLink link(0);
  connect(link);
  expect_moved(link, reinterpret_cast<std::byte*>(from.data()),
               reinterpret_cast<std::byte*>(to.data()), 3);
  link.give_up(kAbortSeconds);
  EXPECT_TRUE(link.given_up());
  EXPECT_FALSE(nccl_abort_hangs());
  EXPECT_FALSE(cuda::devices_abandoned());
  // The device is usable afterwards.
  EXPECT_EQ(on_device(pattern(9)).values(), pattern(9));
}

}  // namespace
}  // namespace heliograph
