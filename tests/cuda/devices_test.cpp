#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/copy_bytes.hpp"
#include "cuda/device_arrays.hpp"

namespace heliograph {
namespace {

using DeviceMemory = TwinTest;

TEST_F(DeviceMemory, ComesAsZero) {
  // Twice, so that the second piece may stand where the first was.
  for (int i = 0; i < 2; ++i) {
    const Buffer zero(100000, MemoryUse::workspace, account.get());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(zero.data()) % 64, 0U);
    std::vector<std::uint8_t> host(zero.size(), 7);
    cuda->device().download(host.data(), zero.data(), host.size());
    EXPECT_EQ(host, std::vector<std::uint8_t>(zero.size(), 0));
    cuda->device().upload(zero.data(), std::vector<std::uint8_t>(zero.size(), 9).data(),
                          zero.size());
  }
  EXPECT_EQ(account->live(MemoryUse::workspace), 0);
}

TEST_F(DeviceMemory, UploadsAndDownloadsKeepOrder) {
  std::vector<int> host(300000);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<int>(i * 7);
  const DeviceArray<int> there = on_device(host);
  const std::vector<int> last(1000, -1);
  cuda->device().upload(there.data() + 5, last.data(), last.size() * sizeof(int));
  std::copy(last.begin(), last.end(), host.begin() + 5);
  EXPECT_EQ(there.values(), host);
  cuda->device().upload(there.data(), nullptr, 0);
  cuda->device().download(nullptr, there.data(), 0);
}

TEST_F(DeviceMemory, PageLockedMemoryIsTheHosts) {
  MemoryAccount pinned(cuda->device().page_locked());
  const Buffer host(5000, MemoryUse::halo, &pinned);
  for (const std::byte b : host.as<std::byte>()) EXPECT_EQ(b, std::byte{0});
  const DeviceArray<float> there = on_device(std::vector<float>(1250, 3.0F));
  cuda->device().download(host.data(), there.data(), 5000);
  for (const float x : host.as<float>()) EXPECT_EQ(x, 3.0F);
}

TEST_F(DeviceMemory, BytesGoBetweenAnyTwoPlaces) {
  std::vector<int> host(1000);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<int>(i);
  const std::size_t bytes = host.size() * sizeof(int);
  const DeviceArray<int> first = on_device(std::vector<int>(1000));
  const DeviceArray<int> second = on_device(std::vector<int>(1000));
  cuda->device().finish();
  copy_by_cuda(reinterpret_cast<std::byte*>(first.data()),
               reinterpret_cast<const std::byte*>(host.data()), bytes);
  copy_by_cuda(reinterpret_cast<std::byte*>(second.data()),
               reinterpret_cast<const std::byte*>(first.data()), bytes);
  std::vector<int> back(1000);
  copy_by_cuda(reinterpret_cast<std::byte*>(back.data()),
               reinterpret_cast<const std::byte*>(second.data()), bytes);
  EXPECT_EQ(back, host);
  copy_by_cuda(nullptr, nullptr, 0);
}

TEST_F(DeviceMemory, FreeMemoryIsTold) {
  const auto before = cuda_available_bytes(1);
  ASSERT_TRUE(before.has_value());
  EXPECT_GT(*before, 0);
  // Ranks beyond the devices bring no memory along.
  EXPECT_EQ(cuda_available_bytes(cuda_devices()), cuda_available_bytes(cuda_devices() + 5));
}

}  // namespace
}  // namespace heliograph
