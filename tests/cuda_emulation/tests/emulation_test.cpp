#include "emulation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "core/cuda/memory_pool.hpp"
#include "core/cuda/runtime.hpp"
#include "heliograph/error.hpp"
#include "probe_kernels.hpp"
#include "support/expect_error.hpp"

// The emulated device behaves like a device and finds errors that a device would not.

namespace heliograph::cuda_emulation {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Emulation : public ::testing::Test {
 protected:
  void TearDown() override {
    set_order(GridOrder::alternating);
    repair();
  }

  int* take(std::size_t count) { return reinterpret_cast<int*>(pool.take(count * sizeof(int))); }
  void give_back(void* at) { pool.give_back(static_cast<std::byte*>(at), 0); }
  std::vector<int> values(const int* at, std::size_t count) {
    std::vector<int> host(count);
    queue.download(host.data(), at, count * sizeof(int));
    return host;
  }
  /// What the wait behind `ask` throws.
  std::string complaint(const std::function<void(cuda::Queue&)>& ask) {
    ask(queue);
    return test::caught_from([&] { queue.finish(); }).text;
  }

  cuda::Queue queue{0};
  cuda::MemoryPool pool{queue, 1};
};

TEST_F(Emulation, EveryThreadRunsOnce) {
  int* out = take(7 * 100);
  for (const GridOrder order : {GridOrder::forwards, GridOrder::backwards}) {
    queue.clear(out, 700 * sizeof(int));
    set_order(order);
    number_threads(queue, out, 7, 100);
    std::vector<int> expected(700);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(values(out, 700), expected);
  }
}

TEST_F(Emulation, ShufflesAndVotes) {
  int* out = take(kLaneResults * 32);
  for (const GridOrder order : {GridOrder::forwards, GridOrder::backwards}) {
    set_order(order);
    queue.clear(out, kLaneResults * 32 * sizeof(int));
    shuffle_lanes(queue, out);
    const std::vector<int> all = values(out, kLaneResults * 32);
    for (int lane = 0; lane < 32; ++lane) {
      SCOPED_TRACE(lane);
      const std::vector<int> mine(all.begin() + kLaneResults * lane,
                                  all.begin() + kLaneResults * (lane + 1));
      EXPECT_THAT(mine, ElementsAre(50, (lane ^ 16) * 10, (lane / 8 * 8 + 1) * 10, 0x49249249,
                                    lane < 16 ? 7 : 20, 496, 35));
    }
  }
}

TEST_F(Emulation, BarriersAndSharedMemory) {
  int* out = take(3);
  for (const GridOrder order : {GridOrder::forwards, GridOrder::backwards}) {
    set_order(order);
    sum_in_blocks(queue, out, 3, 300);
    EXPECT_THAT(values(out, 3), ElementsAre(44850, 44850, 44850));
  }
  int* ended = take(64);
  leave_before_a_barrier(queue, ended);
  const std::vector<int> reached = values(ended, 64);
  EXPECT_EQ(std::accumulate(reached.begin(), reached.end(), 0), 40);
}

TEST_F(Emulation, IntegerAtomics) {
  int* counters = take(3);
  const int before[3] = {0, 1000, -1000};
  queue.upload(counters, before, sizeof(before));
  count_atomically(queue, counters);
  EXPECT_THAT(values(counters, 3), ElementsAre(96, 0, 95));
}

TEST_F(Emulation, ARaceShowsInTheOrderOfLanes) {
  int* out = take(2);
  set_order(GridOrder::forwards);
  race(queue, out);
  EXPECT_EQ(values(out, 1)[0], 1);
  queue.clear(out, 2 * sizeof(int));
  set_order(GridOrder::backwards);
  race(queue, out);
  EXPECT_EQ(values(out, 1)[0], 0);
}

TEST_F(Emulation, ARaceShowsInEveryOtherGridByItself) {
  int* out = take(2);
  cuda::Queue other(0);
  for (const int expected : {0, 1, 0, 1}) {
    number_threads(queue, out, 1, 2);  // Other kernels do not count,
    queue.clear(out, 2 * sizeof(int));
    race(queue, out);
    EXPECT_EQ(values(out, 1)[0], expected);
  }
  race(other, out);  // nor do those of other streams.
  other.finish();
  queue.clear(out, 2 * sizeof(int));
  race(queue, out);
  EXPECT_EQ(values(out, 1)[0], 0);
}

TEST_F(Emulation, WorkWaitsUntilSomebodyDoes) {
  int* out = take(32);
  queue.finish();
  EXPECT_EQ(waiting(queue.stream()), 0);
  number_threads(queue, out, 1, 32);
  queue.clear(out, sizeof(int));
  EXPECT_EQ(waiting(queue.stream()), 2);
  EXPECT_EQ(cudaStreamQuery(queue.stream()), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(queue.stream()), cudaSuccess);
  EXPECT_EQ(waiting(queue.stream()), 0);
}

TEST_F(Emulation, PageLockedMemoryIsReadAndWrittenLate) {
  int* out = take(1);
  int* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof(int)), cudaSuccess);
  *pinned = 1;
  ASSERT_EQ(cudaMemcpyAsync(out, pinned, sizeof(int), cudaMemcpyHostToDevice, queue.stream()),
            cudaSuccess);
  *pinned = 2;
  EXPECT_EQ(values(out, 1)[0], 2) << "the copy was to read what stands there when it runs";
  *pinned = 0;
  ASSERT_EQ(cudaMemcpyAsync(pinned, out, sizeof(int), cudaMemcpyDefault, queue.stream()),
            cudaSuccess);
  EXPECT_EQ(*pinned, 0);
  queue.finish();
  EXPECT_EQ(*pinned, 2);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(Emulation, OrdinaryHostMemoryIsReadAtOnce) {
  int* out = take(1);
  int host = 1;
  ASSERT_EQ(cudaMemcpyAsync(out, &host, sizeof(int), cudaMemcpyHostToDevice, queue.stream()),
            cudaSuccess);
  host = 2;
  EXPECT_EQ(values(out, 1)[0], 1);
}

TEST_F(Emulation, EventsAreBehindWhatWasAskedForBefore) {
  cuda::Queue other(0);
  int* shared = take(1);
  queue.finish();
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  poke(queue, shared, 0);
  ASSERT_EQ(cudaEventRecord(event, queue.stream()), cudaSuccess);
  queue.clear(shared, sizeof(int));  // behind the event
  ASSERT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(waiting(queue.stream()), 1);
  int seen = -1;
  other.download(&seen, shared, sizeof(int));
  EXPECT_EQ(seen, 1);
  EXPECT_EQ(waiting(queue.stream()), 1) << "a stream does not wait for another by itself";
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(values(shared, 1)[0], 0);
}

TEST_F(Emulation, FreshMemoryHoldsNan) {
  float* fresh = nullptr;
  ASSERT_EQ(cudaMallocAsync(&fresh, sizeof(float), queue.stream()), cudaSuccess);
  int* out = take(2);
  look_at_fresh_memory(queue, fresh, out);
  EXPECT_THAT(values(out, 2), ElementsAre(1, 1));
}

TEST_F(Emulation, MemoryIsCountedAndEnds) {
  queue.finish();
  const std::size_t before = live_bytes();
  std::size_t free = 0, total = 0;  // Of this device; others may hold what earlier tests left.
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  set_memory(total - free + 5000);
  std::byte* most = pool.take(4000);
  ASSERT_NE(most, nullptr);
  EXPECT_EQ(live_bytes(), before + 4000);
  EXPECT_EQ(pool.take(4000), nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the pool was to clear what it handles";
  pool.give_back(most, 4000);
  EXPECT_EQ(pool.take(4000), nullptr) << "memory comes back in the order of the stream";
  queue.finish();
  EXPECT_EQ(live_bytes(), before);
  set_memory(std::size_t{4} << 30);
}

class EmulationDeathTest : public Emulation {
 protected:
  /// Fails the test unless the process dies of `ask` or of the wait behind it, with these words.
  void expect_death(const std::function<void(cuda::Queue&)>& ask, const char* words) {
    EXPECT_DEATH(complaint(ask), words);
  }
};

TEST_F(EmulationDeathTest, TheHostCannotTouchDeviceMemory) {
  int* at = take(1);
  queue.finish();
  EXPECT_DEATH({ *at = 1; }, "device memory by the host");
}

TEST_F(EmulationDeathTest, AKernelTouchesOnlyMemoryThatIsItsDevices) {
  int* at = take(64);
  expect_death([&](cuda::Queue& own) { poke(own, at, 64); }, "what lies behind it");
  queue.finish();
  const auto by_another_device = [&](cuda::Queue&) {
    setenv("HELIOGRAPH_EMULATED_DEVICES", "2", 1);
    cuda::Queue other(1);
    poke(other, at, 0);
    other.finish();
  };
  expect_death(by_another_device, "on another device");
  give_back(at);
  expect_death([&](cuda::Queue& own) { poke(own, at, 0); }, "not there");
}

TEST_F(EmulationDeathTest, AKernelCannotTouchMisalignedMemory) {
#if !defined(HELIOGRAPH_KERNELS_TRAP)
  GTEST_SKIP() << "kernels are not compiled to notice it";
#endif
  int* at = take(4);
  expect_death([&](cuda::Queue& own) { write_misaligned(own, at); },
               "no multiple of what it reads or writes");
}

TEST_F(EmulationDeathTest, OtherSignalsAreNotItsOwn) {
  queue.finish();
  EXPECT_EXIT(__builtin_trap(), ::testing::KilledBySignal(SIGILL), "^$");
  EXPECT_EXIT(std::raise(SIGILL), ::testing::KilledBySignal(SIGILL), "^$");
  EXPECT_EXIT(std::raise(SIGSEGV), ::testing::KilledBySignal(SIGSEGV), "^$");
}

TEST_F(Emulation, WritesBehindAPieceAreFoundWhenItIsFreed) {
  int* at = take(3);
  poke(queue, at, 3);  // before the end of the page, so that nothing stops it
  give_back(at);
  EXPECT_THAT(complaint([](cuda::Queue&) {}), HasSubstr("memory was written behind a piece of 12"));
}

TEST_F(Emulation, DivergentBarriersAreNamed) {
  set_order(GridOrder::forwards);
  const struct {
    void (*kernel)(cuda::Queue&);
    const char* words;
  } cases[] = {
      {meet_half_of_a_warp,
       "block 0 of 1: thread 0 waits in __syncwarp(0xffffffff) for thread 16, which has ended"},
      {meet_at_two_places,
       "thread 0 waits in __ballot_sync(0xffffffff) for thread 7, which waits in __syncthreads"},
      {leave_before_a_shuffle,
       "waits in __shfl_xor_sync(0xffffffff) for thread 9, which has ended"},
      {shuffle_outside_the_mask,
       "thread 16 calls __shfl_sync(0x0000ffff), whose mask leaves it out"},
      {write_behind_shared_memory, "shared memory was written behind the 32 bytes"}};
  for (const auto& [kernel, words] : cases) {
    EXPECT_THAT(complaint(kernel), HasSubstr(words));
    repair();
  }
}

TEST_F(Emulation, AFailedKernelBreaksTheDevice) {
  EXPECT_NE(complaint(meet_half_of_a_warp), "");
  EXPECT_THROW(queue.finish(), Error);
  EXPECT_THROW(pool.take(16), Error) << "which is no lack of memory";
  repair();
  EXPECT_NE(pool.take(16), nullptr);
}

TEST_F(Emulation, LaunchesThatADeviceRefuses) {
  int* out = take(4);
  EXPECT_THROW(number_threads(queue, out, 1, 2048), Error);
  EXPECT_THROW(sum_in_blocks(queue, out, 1, 1024 * 13), Error);
  EXPECT_NO_THROW(number_threads(queue, out, 0, 32)) << "a grid without blocks asks for nothing";
  setenv("HELIOGRAPH_EMULATED_DEVICES", "2", 1);
  {
    const cuda::Queue other(1);  // selects device 1
    EXPECT_THROW(number_threads(queue, out, 1, 4), Error);
  }
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  unsetenv("HELIOGRAPH_EMULATED_DEVICES");
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
}

TEST_F(Emulation, KernelsGetNoPointersToTheHost) {
  std::vector<int> heap(1);
  int stack[1] = {};
  static int global[1] = {};
  for (int* host : {heap.data(), stack, global}) {
    EXPECT_THAT(test::caught_from([&] { poke(queue, host, 0); }).text,
                HasSubstr("poke: argument 1 holds an address of the host's memory"));
    EXPECT_EQ(host[0], 0);
    repair();
  }
}

TEST_F(Emulation, KernelsGetPageLockedMemoryAndEndsOfPieces) {
  constexpr std::size_t kPage = 4096 / sizeof(int);
  int* out = take(kPage);
  poke(queue, out + kPage, -1);
  EXPECT_EQ(values(out, kPage).back(), 1);
  int* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof(int)), cudaSuccess);
  *pinned = 0;
  poke(queue, pinned, 0);
  queue.finish();
  EXPECT_EQ(*pinned, 1);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(Emulation, CopiesThatADeviceRefuses) {
  int* at = take(4);
  int host[8] = {};
  const auto copy = [&](void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, bytes, kind, queue.stream());
  };
  EXPECT_EQ(copy(at, host, 20, cudaMemcpyHostToDevice), cudaErrorInvalidValue)
      << "4 bytes too many";
  EXPECT_EQ(copy(at, host, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(copy(host, at, 16, cudaMemcpyDeviceToDevice), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(copy(host, at, 16, cudaMemcpyDefault), cudaSuccess);
}

TEST_F(Emulation, CallsFailOnOrder) {
  fail_call("cudaStreamSynchronize", 2, cudaErrorUnknown);
  EXPECT_NO_THROW(queue.finish());
  EXPECT_THROW(queue.finish(), Error);
  EXPECT_NO_THROW(queue.finish());
}

TEST_F(Emulation, ThreadsHaveStreamsOfTheirOwn) {
  int* out = take(2 * 64);
  queue.finish();
  std::thread other([&] {
    cuda::Queue own(0);
    for (int i = 0; i < 50; ++i) number_threads(own, out + 64, 2, 32);
    own.finish();
  });
  for (int i = 0; i < 50; ++i) number_threads(queue, out, 2, 32);
  queue.finish();
  other.join();
  const std::vector<int> all = values(out, 128);
  for (int i = 0; i < 128; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], i % 64);
}

}  // namespace
}  // namespace heliograph::cuda_emulation
