#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/kernels.hpp"
#include "emulation.hpp"
#include "heliograph/train.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

// Which devices may use the memory of another one, where they reach each other and where not.

namespace heliograph {
namespace {

class DevicePools : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr int kDevices = 4;

  void SetUp() override {
    setenv("HELIOGRAPH_EMULATED_DEVICES", "4", 1);
    cuda_emulation::let_devices_reach_each_other(GetParam());
  }
  void TearDown() override {
    cudaSetDevice(0);
    cuda_emulation::let_devices_reach_each_other(true);
    unsetenv("HELIOGRAPH_EMULATED_DEVICES");
  }

  static bool has_access(int device, int owner) {
    cudaMemPool_t pool = nullptr;
    EXPECT_EQ(cudaDeviceGetDefaultMemPool(&pool, owner), cudaSuccess);
    cudaMemLocation location{};
    location.type = cudaMemLocationTypeDevice;
    location.id = device;
    cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
    EXPECT_EQ(cudaMemPoolGetAccess(&flags, pool, &location), cudaSuccess);
    return flags == cudaMemAccessFlagsProtReadWrite;
  }
};

INSTANTIATE_TEST_SUITE_P(Devices, DevicePools, ::testing::Bool(), [](const auto& p) {
  return p.param ? "ThatReachEachOther" : "ThatDoNot";
});

TEST_P(DevicePools, AreOpenToTheDevicesOfRanksThatReachThem) {
  for (const int ranks : {1, 3, 6}) {
    cuda_emulation::let_devices_reach_each_other(GetParam());
    const int used = std::min(ranks, kDevices);
    std::vector<std::unique_ptr<Kernels>> kernels;
    for (int owner = 0; owner < used; ++owner) {
      kernels.push_back(make_cuda_kernels(owner, 1, {.ranks = ranks}));
    }
    for (int owner = 0; owner < used; ++owner) {
      for (int device = 0; device < kDevices; ++device) {
        EXPECT_EQ(has_access(device, owner), device == owner || (GetParam() && device < used))
            << device << " to memory of " << owner << ", " << ranks << " ranks";
      }
    }
  }
}

TEST_P(DevicePools, MessagesReachOtherDevicesEitherWay) {
  const Dataset data = test::make_small_dataset(80, 12, 4, 5);
  TrainOptions o = test::small_options(3, 2);
  o.transport.device = DeviceKind::cuda;
  setenv("HELIOGRAPH_EMULATED_DEVICES", "1", 1);
  const TrainResult on_one = train(data, o);
  setenv("HELIOGRAPH_EMULATED_DEVICES", "4", 1);
  for (const TransportKind kind : {TransportKind::threads, TransportKind::nccl}) {
    o.transport.kind = kind;
    const TrainResult on_three = train(data, o);
    EXPECT_EQ(on_three.epochs.back().loss, on_one.epochs.back().loss);
    EXPECT_EQ(on_three.predictions, on_one.predictions);
  }
}

}  // namespace
}  // namespace heliograph
