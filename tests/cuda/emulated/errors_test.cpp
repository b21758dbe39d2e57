#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "comm/nccl/transport.hpp"
#include "core/buffer.hpp"
#include "core/copy_bytes.hpp"
#include "core/cuda/runtime.hpp"
#include "core/kernels.hpp"
#include "cuda/device_arrays.hpp"
#include "emulation.hpp"
#include "heliograph/error.hpp"
#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

// Errors of a device, and places where a wait may be forgotten. These tests need the emulated
// device.

namespace heliograph {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CudaErrors : public TwinTest {
 protected:
  void TearDown() override {
    cuda_emulation::repair();
    cuda_emulation::set_memory(std::size_t{4} << 30);
    unsetenv("HELIOGRAPH_EMULATED_DEVICES");
  }
  /// The message that refuses a buffer of 5000 bytes.
  static std::string take(MemoryAccount* account, MemoryUse use);
};

std::string CudaErrors::take(MemoryAccount* account, MemoryUse use) {
  return test::expect_error(ErrorCode::resource, "", [&] { Buffer(5000, use, account); });
}

TEST_F(CudaErrors, WithoutADeviceThereAreNoKernels) {
  EXPECT_TRUE(cuda_built());
  setenv("HELIOGRAPH_EMULATED_DEVICES", "0", 1);
  EXPECT_EQ(cuda_devices(), 0);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(test::expect_error(ErrorCode::usage, "", [] { make_cuda_kernels(0, 1); }),
            "device cuda: there is no CUDA device that can be used: cudaErrorNoDevice");
}

TEST_F(CudaErrors, WhyThereIsNoDeviceIsSaidByAllWhoNeedOne) {
  TrainOptions o = test::small_options(2, 1);
  o.transport.device = DeviceKind::cuda;
  const auto message = [](const auto& body) {
    cuda_emulation::fail_call("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
    return test::expect_error(ErrorCode::usage, "", body);
  };
  const std::string why = "there is no CUDA device that can be used: cudaErrorInsufficientDriver";
  EXPECT_EQ(message([] { make_cuda_kernels(0, 1); }), "device cuda: " + why);
  EXPECT_EQ(message([&] { validate(o); }), "device cuda: " + why);
  EXPECT_EQ(message([] { run_nccl_ranks(2, {}, [](Communicator&) {}); }), "transport nccl: " + why);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(CudaErrors, RanksShareDevicesInTurn) {
  setenv("HELIOGRAPH_EMULATED_DEVICES", "2", 1);
  EXPECT_EQ(cuda_devices(), 2);
  EXPECT_EQ(make_cuda_kernels(3, 1)->device().queue()->device(), 1);
  EXPECT_EQ(make_cuda_kernels(4, 1)->device().queue()->device(), 0);
}

TEST_F(CudaErrors, OnlyCudaKernelsHaveAQueue) {
  EXPECT_EQ(cuda->device().queue()->device(), 0);
  EXPECT_EQ(cpu->device().queue(), nullptr);
}

TEST_F(CudaErrors, MemoryThatIsNotThereIsNamed) {
  const std::size_t all = cuda_emulation::live_bytes() + 1000;
  cuda_emulation::set_memory(all);
  const std::string of_device =
      "; CUDA device 0 has 1000 of " + std::to_string(all) + " bytes free";
  EXPECT_EQ(take(account.get(), MemoryUse::activations),
            "out of memory: 5000 bytes for activations" + of_device);
  const auto for_messages = make_cuda_message_memory();
  MemoryAccount messages(for_messages.get());
  EXPECT_EQ(take(&messages, MemoryUse::halo), "out of memory: 5000 bytes for halo" + of_device);
  MemoryAccount page_locked(cuda->device().page_locked());
  cuda_emulation::fail_call("cudaMallocHost", 1, cudaErrorMemoryAllocation);
  EXPECT_EQ(take(&page_locked, MemoryUse::halo),
            "out of memory: 5000 bytes for halo; the host gives no more page-locked memory");
  EXPECT_NO_THROW(cuda->device().finish());
}

TEST_F(CudaErrors, AnAllocationThatFailsForAnotherReasonSaysWhich) {
  const auto for_messages = make_cuda_message_memory();
  MemoryAccount messages(for_messages.get()), page_locked(cuda->device().page_locked());
  const std::size_t before = cuda_emulation::live_bytes();
  const auto fail = [&](const char* call, MemoryAccount& of) {
    cuda_emulation::fail_call(call, 1, cudaErrorLaunchFailure);
    const std::string message = take(&of, MemoryUse::halo);
    cuda->device().finish();
    EXPECT_EQ(cuda_emulation::live_bytes(), before) << call;
    EXPECT_EQ(of.live(MemoryUse::halo), 0) << call;
    return message;
  };
  // A buffer takes whole cache lines and one more.
  EXPECT_EQ(fail("cudaMallocAsync", *account),
            "CUDA device: allocating 5120 bytes of memory: cudaErrorLaunchFailure");
  EXPECT_EQ(fail("cudaMalloc", messages),
            "CUDA device: allocating 5120 bytes of memory: cudaErrorLaunchFailure");
  EXPECT_EQ(fail("cudaMallocHost", page_locked),
            "CUDA device: allocating 5120 bytes of page-locked host memory: "
            "cudaErrorLaunchFailure");
  for (MemoryAccount* of : {account.get(), &messages}) {
    EXPECT_EQ(fail("cudaMemsetAsync", *of),
              "CUDA device: clearing new memory: cudaErrorLaunchFailure");
  }
  EXPECT_EQ(fail("cudaStreamSynchronize", *account),
            "CUDA device: clearing new memory: cudaErrorLaunchFailure");
}

TEST_F(CudaErrors, WhatTheHostLacksIsRefusedBeforeAnythingIsTaken) {
  cuda_emulation::set_memory(std::size_t{1} << 60);  // The devices have enough memory.
  const Dataset data = test::make_small_dataset(80, 12, 4, 5);
  TrainOptions o = test::small_options(2, 1);
  o.transport.device = DeviceKind::cuda;
  o.model.layers = 3;
  o.model.hidden = 1 << 20;
  EXPECT_THAT(test::expect_error(ErrorCode::resource, "", [&] { train(data, o); }),
              AllOf(StartsWith("the host of the CUDA devices needs at least "),
                    HasSubstr(" for weights) and has "), HasSubstr("lower hidden")));
}

TEST_F(CudaErrors, EveryFailureSaysWhatWasTried) {
  const Matrix a = normal_matrix(3, 3);
  const DeviceMatrix device_a = on_device(a), out = device_matrix(3, 3);
  const auto fail = [&](const char* call) { cuda_emulation::fail_call(call, 1, cudaErrorUnknown); };
  fail("cudaLaunchKernel");
  EXPECT_EQ(
      test::expect_error(ErrorCode::resource, "", [&] { cuda->add(out.view(), device_a.view()); }),
      "CUDA device: axpby: cudaErrorUnknown");
  fail("cudaStreamSynchronize");
  EXPECT_EQ(test::expect_error(ErrorCode::resource, "", [&] { cuda->device().finish(); }),
            "CUDA device: waiting for it: cudaErrorUnknown");
  fail("cublasSgemm");
  EXPECT_EQ(test::expect_error(
                ErrorCode::resource, "",
                [&] { cuda->gemm(device_a.view(), device_a.view(), false, false, out.view()); }),
            "CUDA device: matrix product: execution failed");
  fail("cudaMemcpyAsync");
  EXPECT_THAT(test::expect_error(ErrorCode::resource, "", [&] { out.values(); }),
              HasSubstr("copying from it"));
  EXPECT_NO_THROW(cuda->device().finish());
}

TEST_F(CudaErrors, NoConstructorLeavesAnythingBehindWhenItFails) {
  const std::size_t before = cuda_emulation::live_bytes();
  for (const char* call :
       {"cudaSetDevice", "cudaDeviceGetAttribute", "cudaStreamCreateWithFlags",
        "cudaDeviceGetDefaultMemPool", "cudaMemPoolSetAttribute", "cudaMallocAsync", "cublasCreate",
        "cublasSetWorkspace", "cublasSetMathMode"}) {
    SCOPED_TRACE(call);
    cuda_emulation::fail_call(call, 1, cudaErrorUnknown);
    EXPECT_NE(test::expect_error(ErrorCode::resource, "", [] { make_cuda_kernels(0, 1); }), "");
    EXPECT_EQ(cuda_emulation::live_bytes(), before);
  }
}

TEST_F(CudaErrors, AnUploadIsReadBeforeItReturns) {
  // Larger than the pieces that uploads go through, and more of them than there are stages.
  std::vector<int> host(1 << 20);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<int>(i);
  const std::vector<int> before = host;
  const DeviceArray<int> there = on_device(host);
  std::fill(host.begin(), host.end(), -1);
  EXPECT_EQ(there.values(), before);
}

TEST_F(CudaErrors, KernelsAreOnlyAskedFor) {
  const Matrix a = normal_matrix(300, 70);
  const DeviceMatrix device_a = on_device(a), out = device_matrix(300, 70);
  const DeviceMatrix product = device_matrix(300, 300);
  cuda->device().finish();
  const std::int64_t waits = cuda_emulation::calls("cudaStreamSynchronize");
  cuda->add(out.view(), device_a.view());
  cuda->gemm(device_a.view(), device_a.view(), true, false, product.view());
  EXPECT_EQ(cuda_emulation::calls("cudaStreamSynchronize"), waits);
  EXPECT_GE(cuda_emulation::waiting(cuda->device().queue()->stream()), 2);
}

TEST_F(CudaErrors, ScratchIsKept) {
  const Matrix d = normal_matrix(300, 70);
  const DeviceMatrix device_d = on_device(d);
  const DeviceArray<float> sums = on_device(std::vector<float>(70));
  const auto sum = [&] { cuda->column_sums(device_d.view(), {sums.data(), nullptr, 1, 70}); };
  sum();
  const std::int64_t allocations = cuda_emulation::calls("cudaMallocAsync");
  for (int i = 0; i < 5; ++i) sum();
  EXPECT_EQ(cuda_emulation::calls("cudaMallocAsync"), allocations);
}

TEST_F(CudaErrors, TheOrderOfThreadsDoesNotMatter) {
  const Matrix logits = normal_matrix(500, 40);
  const DeviceMatrix device_logits = on_device(logits), d = device_matrix(500, 40);
  const DeviceArray<std::int32_t> target = on_device(std::vector<std::int32_t>(500, 3));
  const DeviceArray<float> sums = on_device(std::vector<float>(40));
  double losses[2];
  std::vector<float> columns[2];
  using cuda_emulation::GridOrder;
  for (const int backwards : {0, 1}) {
    set_order(backwards == 1 ? GridOrder::backwards : GridOrder::forwards);
    losses[backwards] =
        cuda->softmax_cross_entropy(device_logits.view(), {target.data()}, 1, d.view());
    cuda->column_sums(d.view(), {sums.data(), nullptr, 1, 40});
    columns[backwards] = sums.values();
  }
  set_order(GridOrder::alternating);
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(columns[0], columns[1]);
}

}  // namespace
}  // namespace heliograph
