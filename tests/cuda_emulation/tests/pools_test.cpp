#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "emulation.hpp"

// Which memory emulated devices may touch.

namespace heliograph::cuda_emulation {
namespace {

/// One integer of each of two devices' pools.
class EmulatedPools : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("HELIOGRAPH_EMULATED_DEVICES", "2", 1);
    let_devices_reach_each_other(true);  // Nothing is shared.
    for (const int device : {1, 0}) {
      ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
      ASSERT_EQ(cudaStreamCreateWithFlags(&stream(device), cudaStreamNonBlocking), cudaSuccess);
      ASSERT_EQ(cudaMallocAsync(&at(device), sizeof(int), stream(device)), cudaSuccess);
      ASSERT_EQ(cudaMemsetAsync(at(device), device, sizeof(int), stream(device)), cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(stream(device)), cudaSuccess);
    }
  }
  void TearDown() override {
    for (const int device : {1, 0}) {
      cudaSetDevice(device);
      cudaFreeAsync(at(device), stream(device));
      cudaStreamDestroy(stream(device));
    }
    let_devices_reach_each_other(true);
    unsetenv("HELIOGRAPH_EMULATED_DEVICES");
  }

  int*& at(int device) { return at_[static_cast<std::size_t>(device)]; }
  cudaStream_t& stream(int device) { return streams_[static_cast<std::size_t>(device)]; }

  /// Gives `device` access to the pool of `owner`.
  static cudaError_t share(int owner, int device) {
    cudaMemPool_t pool = nullptr;
    EXPECT_EQ(cudaDeviceGetDefaultMemPool(&pool, owner), cudaSuccess);
    const cudaMemAccessDesc access{{cudaMemLocationTypeDevice, device},
                                   cudaMemAccessFlagsProtReadWrite};
    return cudaMemPoolSetAccess(pool, &access, 1);
  }
  /// A copy from device 1 to device 0, by the latter.
  cudaError_t copy() {
    return cudaMemcpyAsync(at(0), at(1), sizeof(int), cudaMemcpyDefault, stream(0));
  }

 private:
  std::array<int*, 2> at_{};
  std::array<cudaStream_t, 2> streams_{};
};

TEST_F(EmulatedPools, OtherDevicesCopyFromThoseThatAreShared) {
  EXPECT_EQ(copy(), cudaErrorInvalidValue);
  ASSERT_EQ(share(0, 1), cudaSuccess);
  EXPECT_EQ(copy(), cudaErrorInvalidValue) << "the other one's was to be shared";
  ASSERT_EQ(share(1, 0), cudaSuccess);
  EXPECT_EQ(copy(), cudaSuccess);
  int seen = -1;
  EXPECT_EQ(cudaMemcpyAsync(&seen, at(0), sizeof(int), cudaMemcpyDefault, stream(0)), cudaSuccess);
  EXPECT_EQ(seen, 0x01010101);
  let_devices_reach_each_other(true);  // Takes it back.
  EXPECT_EQ(cudaMemsetAsync(at(1), 0, sizeof(int), stream(0)), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(EmulatedPools, CopiesBetweenPeersNeedNoShare) {
  let_devices_reach_each_other(false);
  int reaches = -1;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&reaches, 0, 1), cudaSuccess);
  EXPECT_EQ(reaches, 0);
  EXPECT_EQ(share(1, 0), cudaErrorInvalidValue);
  EXPECT_EQ(copy(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyPeerAsync(at(0), 0, at(1), 1, sizeof(int), stream(0)), cudaSuccess);
  int seen = -1;
  EXPECT_EQ(cudaMemcpyAsync(&seen, at(0), sizeof(int), cudaMemcpyDefault, stream(0)), cudaSuccess);
  EXPECT_EQ(seen, 0x01010101);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(EmulatedPools, CopiesAreAskedForWithTheDeviceOfTheirStream) {
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(at(0), 0, sizeof(int), stream(0)), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace heliograph::cuda_emulation
