#include "core/cuda/replay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/cuda/runtime.hpp"
#include "cuda/device_arrays.hpp"
#include "emulation.hpp"
#include "heliograph/error.hpp"
#include "support/expect_error.hpp"
#include "tests/probe_kernels.hpp"

// Work that comes again and again on one queue, on the emulated device.

namespace heliograph {
namespace {

using cuda_emulation::calls;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CudaReplay : public TwinTest {
 protected:
  void SetUp() override {
    TwinTest::SetUp();
    const Matrix ones = Matrix(5, 7, MemoryUse::workspace, nullptr);
    std::fill_n(ones.view().data, 5 * ones.view().stride, 1.0F);
    x_ = std::make_unique<DeviceMatrix>(on_device(ones));
    out_ = std::make_unique<DeviceMatrix>(device_matrix(5, 7));
  }
  void TearDown() override {
    cuda_emulation::repair();
    x_.reset();
    out_.reset();
  }

  /// Calls of `function` while `action` runs.
  static std::int64_t count(const char* function, const std::function<void()>& action) {
    const std::int64_t before = calls(function);
    action();
    return calls(function) - before;
  }
  void repeat(const std::function<void()>& action) {
    cuda->device().begin_repeated();
    action();
    cuda->device().end_repeated();
    if (cuda->device().can_record()) cuda->device().record();
  }
  std::string message(const std::function<void()>& action) {
    const test::Caught caught = test::caught_from(action);
    EXPECT_TRUE(caught.text.empty() || caught.code == ErrorCode::resource) << caught.text;
    return caught.text;
  }
  ConstMatrixView x() const { return x_->view(); }
  MatrixView out() const { return out_->view(); }
  /// Adds 1 to each value, in so many kernels.
  void add(int times) { add(times, out()); }
  void add(int times, MatrixView to) {
    for (int i = 0; i < times; ++i) cuda->add(to, x());
  }
  void clear_out() {
    queue().clear(out().data, static_cast<std::size_t>(5 * out().stride) * sizeof(float));
  }
  static float value_of(const DeviceMatrix& matrix) { return matrix.values().view().data[0]; }
  float value() const { return value_of(*out_); }
  cuda::Queue& queue() { return *cuda->device().queue(); }

  /// Runs that gave up their devices have left theirs behind.
  std::size_t new_graphs() const { return cuda_emulation::live_graphs() - graphs_before_; }

  std::unique_ptr<DeviceMatrix> x_, out_;
  std::size_t graphs_before_ = cuda_emulation::live_graphs();
};

TEST_F(CudaReplay, TheThirdTimeIsOneLaunch) {
  const auto work = [&] {
    clear_out();
    add(3);
  };
  const std::int64_t changed = calls("cudaGraphExecKernelNodeSetParams");
  for (int i = 0; i < 5; ++i) {
    std::int64_t graphs = 0;
    const std::int64_t kernels = count(
        "cudaLaunchKernel", [&] { graphs = count("cudaGraphLaunch", [&] { repeat(work); }); });
    EXPECT_EQ(graphs, i < 2 ? 0 : 1) << i;
    EXPECT_EQ(kernels, i < 2 ? 3 : 0) << i;
    EXPECT_EQ(value(), 3) << i;
  }
  EXPECT_EQ(calls("cudaGraphExecKernelNodeSetParams"), changed) << "nothing has changed";
}

TEST_F(CudaReplay, NothingReachesTheDeviceBeforeItIsWaitedFor) {
  for (int i = 0; i < 3; ++i) {
    cuda->device().begin_repeated();
    clear_out();
    add(2);
    EXPECT_EQ(value(), 2) << "a download follows what was asked for before";
    add(3);
    cuda->device().finish();
    add(1);
    const float more = 0.5F;
    cuda->device().upload(out().data, &more, sizeof(more));
    add(1);
    cuda->device().end_repeated();
    if (i == 1) cuda->device().record();
    EXPECT_EQ(value(), 1.5F);
    EXPECT_EQ(out_->values().view().data[1], 7);
  }
}

TEST_F(CudaReplay, ArgumentsThatChangeAreUpdatedAndEarlierLaunchesKeepTheirs) {
  const std::array<DeviceMatrix, 3> slots = {device_matrix(5, 7), device_matrix(5, 7),
                                             device_matrix(5, 7)};
  constexpr int kRounds = 7;
  const std::int64_t changed = calls("cudaGraphExecKernelNodeSetParams");
  for (int i = 0; i < kRounds; ++i) {
    repeat([&] {  // Nobody waits between two rounds.
      add(1, slots[static_cast<std::size_t>(i % 3)].view());
      add(1);
    });
  }
  EXPECT_EQ(calls("cudaGraphExecKernelNodeSetParams") - changed, kRounds - 2);
  EXPECT_EQ(value(), kRounds);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(value_of(slots[i]), i == 0 ? 3 : 2) << i;
  }
}

TEST_F(CudaReplay, GridsMayChange) {
  const Matrix ones = Matrix(900, 7, MemoryUse::workspace, nullptr);
  std::fill_n(ones.view().data, 900 * ones.view().stride, 1.0F);
  const DeviceMatrix large = on_device(ones), sum = device_matrix(900, 7);
  const std::int64_t made = calls("cudaGraphInstantiate");
  for (const std::int64_t rows : {900, 900, 30, 1, 900}) {
    repeat([&] {
      for (int i = 0; i < 2; ++i) {
        cuda->add(sum.view().row_range(0, rows), ConstMatrixView(large.view()).row_range(0, rows));
      }
    });
  }
  EXPECT_EQ(calls("cudaGraphInstantiate") - made, 1);
  const Matrix result = sum.values();
  EXPECT_EQ(result.view().row(0)[0], 10);
  EXPECT_EQ(result.view().row(29)[0], 8);
  EXPECT_EQ(result.view().row(30)[0], 6);
  EXPECT_EQ(result.view().row(899)[0], 6);
}

TEST_F(CudaReplay, SequencesThatChangeAreAskedForInOrder) {
  // More, fewer and other pieces of work, at the same place and behind a wait.
  const Matrix square = normal_matrix(7, 7);
  const DeviceMatrix factor = on_device(square);
  const auto step = [&](int i, MatrixView sum, MatrixView product) {
    cuda->add(sum, x());
    if (i % 3 == 1) cuda->add(sum, x());
    if (i > 4) cuda->gemm(sum, factor.view(), false, i % 2 == 0, product);
    cuda->device().finish();
    if (i % 4 != 2) cuda->add(sum, x());
    if (i > 10) queue().clear(product.data, 7 * sizeof(float));
    cuda->gemm(sum, factor.view(), i % 5 == 4, false, product);
    cuda->add(sum, product);
  };
  const DeviceMatrix product = device_matrix(5, 7), sum = device_matrix(5, 7),
                     direct_product = device_matrix(5, 7);
  const std::int64_t gone = calls("cudaGraphExecDestroy"), launched = calls("cudaGraphLaunch");
  for (int i = 0; i < 20; ++i) {
    repeat([&] { step(i, out(), product.view()); });
    step(i, sum.view(), direct_product.view());
    const Matrix got = out_->values(), wanted = sum.values();
    expect_near(got.view(), wanted.view(), 0);
  }
  EXPECT_GT(calls("cudaGraphLaunch"), launched);
  EXPECT_GT(calls("cudaGraphExecDestroy"), gone);
}

TEST_F(CudaReplay, ProductsArePartOfAGraph) {
  const Matrix square = normal_matrix(7, 7);
  const DeviceMatrix factor = on_device(square), product = device_matrix(5, 7);
  std::vector<float> first;
  for (int i = 0; i < 4; ++i) {
    const std::int64_t asked = count("cublasSgemm", [&] {
      repeat([&] {
        clear_out();
        cuda->gemm(x(), factor.view(), false, false, product.view());
        cuda->gemm(x(), factor.view(), true, true, product.view());
        cuda->add(out(), product.view());
      });
    });
    EXPECT_EQ(asked, i == 0 ? 2 : i == 1 ? 4 : 0) << "twice at once, then for the graph";
    const Matrix values = out_->values();
    const std::vector<float> now(values.view().data, values.view().data + 7);
    if (i == 0) first = now;
    EXPECT_EQ(now, first) << i;
  }
}

TEST_F(CudaReplay, WhatIsNotRepeatedIsAskedForAtOnce) {
  for (int i = 0; i < 2; ++i) repeat([&] { add(2); });
  EXPECT_EQ(count("cudaLaunchKernel", [&] { add(2); }), 2);
  EXPECT_EQ(count("cudaGraphLaunch", [&] { repeat([&] { add(2); }); }), 1);
  EXPECT_EQ(value(), 8);
}

TEST_F(CudaReplay, MemoryThatGoesIsWaitedForByItsKernels) {
  for (int i = 0; i < 3; ++i) {
    repeat([&] {
      const DeviceMatrix gone = on_device(x_->values());
      cuda->add(out(), gone.view());
      cuda->add(out(), gone.view());
    });
  }
  EXPECT_EQ(value(), 6);
}

TEST_F(CudaReplay, FailuresNameWhatWasTried) {
  const auto work = [&] { add(3); };
  const auto fail = [&](const char* call, const std::function<void()>& action) {
    cuda_emulation::fail_call(call, 1, cudaErrorMemoryAllocation);
    return message([&] {
      repeat(action);
      cuda->device().finish();
    });
  };
  EXPECT_EQ(fail("cudaLaunchKernel", work), "CUDA device: axpby: cudaErrorMemoryAllocation");
  for (const char* call :
       {"cudaGraphCreate", "cudaGraphAddKernelNode", "cudaGraphInstantiate", "cudaGraphUpload"}) {
    repeat([&] { add(4); });
    repeat(work);
    const std::string said = fail(call, work);
    EXPECT_THAT(said, HasSubstr("cudaErrorMemoryAllocation")) << call;
    EXPECT_THAT(said, HasSubstr(call == std::string("cudaGraphAddKernelNode")
                                    ? "CUDA device: axpby"
                                    : "CUDA device: making a graph of kernels"));
    EXPECT_EQ(new_graphs(), 0U) << call;
  }
  repeat(work);  // Makes the graph.
  EXPECT_EQ(new_graphs(), 2U);
  EXPECT_EQ(fail("cudaGraphLaunch", work),
            "CUDA device: a graph that begins with axpby: cudaErrorMemoryAllocation");
  // And all of it goes on.
  cuda->device().finish();
  clear_out();
  for (int i = 0; i < 3; ++i) repeat(work);
  EXPECT_EQ(value(), 9);
}

TEST_F(CudaReplay, ACaptureThatFailsLeavesTheStreamUsable) {
  const Matrix square = normal_matrix(7, 7);
  const DeviceMatrix factor = on_device(square), product = device_matrix(5, 7);
  const auto work = [&] {
    cuda->gemm(x(), factor.view(), false, false, product.view());
    cuda->add(out(), product.view());
  };
  for (const char* call : {"cudaStreamBeginCapture", "cublasSgemm", "cudaGraphAddChildGraphNode"}) {
    repeat([&] { add(2); });
    repeat(work);
    const bool is_product = call == std::string("cublasSgemm");  // Asked for at once before.
    cuda_emulation::fail_call(call, is_product ? 2 : 1, cudaErrorUnknown);
    EXPECT_NE(message([&] {
                repeat(work);
                cuda->device().finish();
              }),
              "")
        << call;
    EXPECT_EQ(new_graphs(), 0U) << call;
    EXPECT_NO_THROW(cuda->device().finish());
  }
}

TEST_F(CudaReplay, AFailureThatNobodyCouldSayIsSaidLater) {
  cuda_emulation::fail_call("cudaLaunchKernel", 1, cudaErrorUnknown);
  repeat([&] { add(2); });
  EXPECT_EQ(message([&] { add(1); }), "CUDA device: axpby: cudaErrorUnknown");
  EXPECT_EQ(message([&] { add(1); }), "");
}

TEST_F(CudaReplay, WhoIsToldOfAFailureMayFreeWhatTheRestUses) {
  add(1);
  cuda_emulation::fail_call("cudaLaunchKernel", 1, cudaErrorMemoryAllocation);
  repeat([&] { add(2); });
  ASSERT_GT(cuda_emulation::waiting(), 0);
  EXPECT_NE(message([&] { cuda->device().finish(); }), "");
  EXPECT_EQ(cuda_emulation::waiting(), 0);
}

// Other ranks may wait for this one while it asks for work.
TEST_F(CudaReplay, OnlyRecordingMakesOrFreesGraphs) {
  const auto others = [] { return calls("cudaGraphInstantiate") + calls("cudaGraphExecDestroy"); };
  const auto ask = [&](int kernels) {
    cuda->device().begin_repeated();
    add(kernels);
    cuda->device().end_repeated();
  };
  const std::int64_t before = others();
  ask(2);
  EXPECT_FALSE(cuda->device().can_record());
  ask(2);
  EXPECT_TRUE(cuda->device().can_record());
  ask(2);
  EXPECT_EQ(others(), before);
  cuda->device().record();
  EXPECT_FALSE(cuda->device().can_record());
  EXPECT_EQ(others(), before + 1);
  EXPECT_EQ(count("cudaGraphLaunch", [&] { ask(2); }), 1);
  ask(3);
  EXPECT_TRUE(cuda->device().can_record()) << "to free the graph";
  EXPECT_EQ(others(), before + 1);
  cuda->device().record();
  EXPECT_EQ(others(), before + 2);
  EXPECT_EQ(value(), 11);
}

TEST_F(CudaReplay, AnAbandonedDeviceIsAskedForNothingThatWasPutOff) {
  for (int i = 0; i < 2; ++i) repeat([&] { add(2); });
  const std::int64_t waits = calls("cudaStreamSynchronize"), kernels = calls("cudaLaunchKernel");
  cuda->device().begin_repeated();
  add(3);  // No longer what the graph is of, which may still run.
  cuda::abandon_devices();
  cuda->device().end_repeated();
  EXPECT_EQ(calls("cudaStreamSynchronize"), waits);
  EXPECT_EQ(calls("cudaLaunchKernel"), kernels);
  cuda::abandon_devices(false);
  EXPECT_THAT(message([&] { cuda->device().finish(); }), HasSubstr("this process must end"));
  EXPECT_EQ(value(), 4);
}

TEST_F(CudaReplay, AKernelThatFailsInAGraphIsReported) {
  const DeviceArray<int> whole = on_device(std::vector<int>{1});
  const auto work = [&] {
    add(1);
    cuda_emulation::meet_if(queue(), whole.data());
  };
  for (int i = 0; i < 3; ++i) repeat(work);
  EXPECT_EQ(value(), 3);
  const int broken = 0;
  cuda->device().upload(whole.data(), &broken, sizeof(broken));
  EXPECT_EQ(count("cudaGraphLaunch", [&] { repeat(work); }), 1);
  EXPECT_THAT(message([&] { cuda->device().finish(); }),
              AllOf(HasSubstr("CUDA device: waiting for it: "), HasSubstr("which has ended")));
}

TEST_F(CudaReplay, GraphsGoWithTheirKernels) {
  const std::size_t before = cuda_emulation::live_graphs();
  {
    const auto own = make_cuda_kernels(0, 1);
    for (int i = 0; i < 3; ++i) {
      own->device().begin_repeated();
      own->add(out(), x());
      own->add(out(), x());
      own->device().end_repeated();
      if (i == 1) own->device().record();
    }
    EXPECT_EQ(cuda_emulation::live_graphs(), before + 2);
  }
  EXPECT_EQ(cuda_emulation::live_graphs(), before);
}

}  // namespace
}  // namespace heliograph
