#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/cuda/cuda_device.hpp"
#include "cuda/device_arrays.hpp"
#include "emulation.hpp"

// What other threads may do while one captures a stream. These tests need emulated devices.

namespace heliograph {
namespace {

/// A library that asks for one thing, and has another thread do something when that is captured.
class Library {
 public:
  Library(std::function<void()> meanwhile, std::chrono::milliseconds patience)
      : meanwhile_(std::move(meanwhile)), patience_(patience) {}

  /// Asks `kernels` twice, in one epoch.
  void ask(Kernels& kernels, float* at) {
    kernels.device().begin_repeated();
    const cuda::LibraryWork work{"a library's call", this, &Library::call,
                                 std::as_bytes(std::span(&at, 1))};
    kernels.device().queue()->ask(work);
    kernels.device().queue()->ask(work);
    kernels.device().end_repeated();
    kernels.device().finish();
    if (kernels.device().can_record()) kernels.device().record();
  }

  /// Whether the other thread had to wait. Rethrows what that thread has thrown.
  bool held_up() {
    other_.get();
    return held_up_;
  }

 private:
  static void call(void* library, const void* call, cudaStream_t stream) {
    float* at = nullptr;
    std::memcpy(&at, call, sizeof(at));
    cuda::check(cudaMemsetAsync(at, 0, sizeof(float), stream), "a library's call");
    static_cast<Library*>(library)->called();
  }
  void called() {
    if (++calls_ != 5) return;  // Two epochs ask twice, then a capture does.
    other_ = std::async(std::launch::async, meanwhile_);
    held_up_ = other_.wait_for(patience_) == std::future_status::timeout;
  }

  std::function<void()> meanwhile_;
  std::chrono::milliseconds patience_;
  int calls_ = 0;
  std::future<void> other_;
  bool held_up_ = false;
};

class CudaCaptures : public TwinTest {
 protected:
  void SetUp() override {
    setenv("HELIOGRAPH_EMULATED_DEVICES", "2", 1);
    TwinTest::SetUp();
  }
  void TearDown() override {
    unsetenv("HELIOGRAPH_EMULATED_DEVICES");
    cuda_emulation::repair();
  }

  /// Whether `other` waits while a stream of device 0 is captured, which it may not break.
  bool waits(const std::function<void()>& other) {
    return held_up(other, std::chrono::milliseconds(200));
  }
  /// Whether `other` ends meanwhile, however long a busy machine takes.
  bool goes_on(const std::function<void()>& other) {
    return !held_up(other, std::chrono::seconds(30));
  }

 private:
  bool held_up(const std::function<void()>& other, std::chrono::milliseconds patience) {
    Library library(other, patience);
    const DeviceArray<float> value = on_device(std::vector<float>(1, 7.0F));
    const std::int64_t graphs = cuda_emulation::calls("cudaGraphLaunch");
    for (int epoch = 0; epoch < 3; ++epoch) library.ask(*cuda, value.data());
    EXPECT_EQ(cuda_emulation::calls("cudaGraphLaunch") - graphs, 1);
    EXPECT_EQ(value.values(), std::vector<float>(1, 0.0F));
    return library.held_up();
  }
};

TEST_F(CudaCaptures, AHandleOfCublasBeginsBehindThem) {
  std::unique_ptr<Kernels> other;
  EXPECT_TRUE(waits([&] { other = make_cuda_kernels(0, 1); }));
}

TEST_F(CudaCaptures, AHandleOfCublasEndsBehindThem) {
  std::unique_ptr<Kernels> other = make_cuda_kernels(0, 1);
  EXPECT_TRUE(waits([&] { other.reset(); }));
}

TEST_F(CudaCaptures, WorkAndMemoryOfOtherStreamsDoNotWait) {
  cuda::CudaDevice same(0, 1);
  MemoryAccount of_device(same.memory()), page_locked(same.page_locked());
  EXPECT_TRUE(goes_on([&] {
    const Buffer memory(1000, MemoryUse::workspace, &of_device);
    const Buffer of_host(1000, MemoryUse::workspace, &page_locked);
    same.upload_page_locked(memory.data(), of_host.data(), 1000);
    same.finish();
  }));
}

TEST_F(CudaCaptures, OtherDevicesDoNotWait) {
  EXPECT_TRUE(goes_on([] { make_cuda_kernels(1, 1); }));
}

}  // namespace
}  // namespace heliograph
