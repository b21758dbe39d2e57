#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "core/cuda/memory_pool.hpp"
#include "core/cuda/runtime.hpp"
#include "emulation.hpp"
#include "probe_kernels.hpp"

// Emulated graphs behave like CUDA's and refuse misuse that CUDA would not.

namespace heliograph::cuda_emulation {
namespace {

using ::testing::ElementsAre;

class EmulatedGraphs : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
    at = reinterpret_cast<int*>(pool.take(4 * sizeof(int)));
    queue.clear(at, 4 * sizeof(int));
    poke(queue, at, 3);  // Makes the kernel known.
    queue.clear(at, 4 * sizeof(int));
  }
  void TearDown() override {
    repair();
    if (exec != nullptr) cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    pool.give_back(reinterpret_cast<std::byte*>(at), 0);
  }

  cudaMemsetParams memory(int index, unsigned value) const {
    return {at + index, 0, value, 1, sizeof(int), 1};
  }
  cudaGraphNode_t add(const cudaMemsetParams& m, cudaGraphNode_t before) {
    cudaGraphNode_t node = nullptr;
    EXPECT_EQ(cudaGraphAddMemsetNode(&node, graph, before == nullptr ? nullptr : &before,
                                     before == nullptr ? 0 : 1, &m),
              cudaSuccess);
    return node;
  }
  /// The kernel of `poke`, which sets at[index].
  cudaKernelNodeParams poking(std::int64_t& index) {
    values = {&at, &index};
    cudaKernelNodeParams kernel{};
    kernel.func = poke_function();
    kernel.blockDim = dim3(1);
    kernel.kernelParams = values.data();
    return kernel;
  }
  std::vector<int> read() {
    std::vector<int> host(4);
    queue.download(host.data(), at, 4 * sizeof(int));
    return host;
  }
  void instantiate() { ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess); }

  cuda::Queue queue{0};
  cuda::MemoryPool pool{queue, 1};
  int* at = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  std::array<void*, 2> values{};
};

TEST_F(EmulatedGraphs, RunLaterInTheOrderOfTheirEdges) {
  const cudaGraphNode_t first = add(memory(0, 1), nullptr);
  add(memory(0, 2), first);
  instantiate();
  queue.finish();
  ASSERT_EQ(cudaGraphLaunch(exec, queue.stream()), cudaSuccess);
  EXPECT_EQ(waiting(queue.stream()), 2);
  EXPECT_EQ(read()[0], 0x02020202);
}

TEST_F(EmulatedGraphs, AnEdgeThatIsMissingShows) {
  add(memory(0, 1), nullptr);
  add(memory(0, 2), nullptr);
  instantiate();
  ASSERT_EQ(cudaGraphLaunch(exec, queue.stream()), cudaSuccess);
  EXPECT_EQ(read()[0], 0x01010101) << "the one that was added last was to run first";
}

TEST_F(EmulatedGraphs, AKernelIsChangedForLaterLaunchesOnly) {
  std::int64_t index = 1;
  const cudaKernelNodeParams first = poking(index);
  cudaGraphNode_t node = nullptr;
  ASSERT_EQ(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &first), cudaSuccess);
  index = 99;  // It has a copy.
  instantiate();
  ASSERT_EQ(cudaGraphLaunch(exec, queue.stream()), cudaSuccess);
  index = 2;
  const cudaKernelNodeParams second = poking(index);
  ASSERT_EQ(cudaGraphExecKernelNodeSetParams(exec, node, &second), cudaSuccess);
  EXPECT_THAT(read(), ElementsAre(0, 1, 0, 0));
  ASSERT_EQ(cudaGraphLaunch(exec, queue.stream()), cudaSuccess);
  EXPECT_THAT(read(), ElementsAre(0, 1, 1, 0));
}

TEST_F(EmulatedGraphs, MisuseIsRefused) {
  std::int64_t index = 1;
  cudaKernelNodeParams kernel = poking(index);
  cudaGraphNode_t node = nullptr, other = add(memory(0, 1), nullptr);
  cudaGraph_t second = nullptr;
  ASSERT_EQ(cudaGraphCreate(&second, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphAddKernelNode(&node, second, &other, 1, &kernel), cudaErrorInvalidValue)
      << "a node of another graph";
  EXPECT_EQ(cudaGraphDestroy(second), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(second), cudaErrorInvalidValue);
  const cudaMemsetParams beyond{at + 3, 0, 0, 1, 2 * sizeof(int), 1};
  EXPECT_EQ(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &beyond), cudaErrorInvalidValue);
  instantiate();
  EXPECT_EQ(cudaGraphExecKernelNodeSetParams(exec, other, &kernel), cudaErrorInvalidValue)
      << "no kernel";
  kernel.blockDim = dim3(2000);
  EXPECT_EQ(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel),
            cudaErrorInvalidConfiguration);
  int unknown = 0;
  kernel.func = &unknown;
  EXPECT_EQ(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel),
            cudaErrorInvalidDeviceFunction);
  ASSERT_EQ(cudaGraphLaunch(exec, queue.stream()), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaErrorInvalidValue) << "it has not run";
  queue.finish();
}

TEST_F(EmulatedGraphs, CaptureTakesWorkInsteadOfDoingIt) {
  queue.finish();
  cudaGraph_t inner = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(queue.stream(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  poke(queue, at, 0);
  queue.clear(at, sizeof(int));
  poke(queue, at, 1);
  EXPECT_EQ(cudaStreamBeginCapture(queue.stream(), cudaStreamCaptureModeThreadLocal),
            cudaErrorIllegalState);
  ASSERT_EQ(cudaStreamEndCapture(queue.stream(), &inner), cudaSuccess);
  EXPECT_EQ(waiting(queue.stream()), 0);
  const cudaGraphNode_t first = add(memory(2, 1), nullptr);
  cudaGraphNode_t child = nullptr;
  ASSERT_EQ(cudaGraphAddChildGraphNode(&child, graph, &first, 1, inner), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(inner), cudaSuccess) << "the node has a copy";
  instantiate();
  ASSERT_EQ(cudaGraphLaunch(exec, queue.stream()), cudaSuccess);
  EXPECT_THAT(read(), ElementsAre(0, 1, 0x01010101, 0));
}

TEST_F(EmulatedGraphs, CaptureEndsByWhatItCannotTake) {
  const auto broken_by = [&](auto call) {
    EXPECT_EQ(cudaStreamBeginCapture(queue.stream(), cudaStreamCaptureModeThreadLocal),
              cudaSuccess);
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
    cudaGraph_t none = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(queue.stream(), &none), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(cudaStreamEndCapture(queue.stream(), &none), cudaErrorIllegalState);
  };
  void* memory_of_host = nullptr;
  broken_by([&] { return cudaStreamSynchronize(queue.stream()); });
  broken_by([&] { return cudaStreamQuery(queue.stream()); });
  broken_by([&] { return cudaMallocHost(&memory_of_host, 8); });
  broken_by([&] { return cudaDeviceSynchronize(); });
  cuda::Queue other(0);  // Another stream of the thread may be waited for.
  ASSERT_EQ(cudaStreamBeginCapture(queue.stream(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(other.stream()), cudaSuccess);
  cudaGraph_t empty = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(queue.stream(), &empty), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(empty), cudaSuccess);
}

}  // namespace
}  // namespace heliograph::cuda_emulation
