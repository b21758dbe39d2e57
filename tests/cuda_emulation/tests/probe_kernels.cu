#include "core/cuda/launch.hpp"
#include "probe_kernels.hpp"

namespace heliograph::cuda_emulation {
namespace {

using cuda::Grid;
using cuda::kWholeWarp;
using cuda::launch;

__global__ void number_kernel(int* out) {
  out[cuda::global_thread()] = static_cast<int>(cuda::global_thread());
}

__global__ void shuffle_kernel(int* out) {
  const int lane = cuda::lane();
  int* mine = out + kLaneResults * lane;
  mine[0] = __shfl_sync(kWholeWarp, lane * 10, 5);
  mine[1] = __shfl_xor_sync(kWholeWarp, lane * 10, 16);
  mine[2] = __shfl_sync(kWholeWarp, lane * 10, 1, 8);
  mine[3] = static_cast<int>(__ballot_sync(kWholeWarp, lane % 3 == 0));
  // The halves of the warp go ways of their own.
  if (lane < 16) {
    mine[4] = __shfl_sync(0x0000ffffU, lane, 7);
  } else {
    mine[4] = __shfl_sync(0xffff0000U, lane, 20);
  }
  __syncwarp();
  mine[5] = cuda::warp_sum(lane);
  mine[6] = static_cast<int>(cuda::warp_max(static_cast<double>(lane)) +
                             cuda::lanes_combine(static_cast<float>(lane + 4), cuda::kWarp,
                                                 [](float a, float b) { return b < a ? b : a; }));
}

__global__ void sum_kernel(int* out) {
  int* values = cuda::shared_memory<int>();
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  for (unsigned step = 1; step < blockDim.x; step *= 2) {
    const int other = threadIdx.x + step < blockDim.x ? values[threadIdx.x + step] : 0;
    __syncthreads();
    values[threadIdx.x] += other;
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = values[0];
}

__global__ void atomic_kernel(int* counters) {
  atomicAdd(counters, 1);
  atomicMin(counters + 1, static_cast<int>(threadIdx.x));
  atomicMax(counters + 2, static_cast<int>(threadIdx.x));
}

__global__ void fresh_kernel(const float* fresh, int* out) {
  const float* shared = cuda::shared_memory<float>();
  out[0] = shared[0] != shared[0] ? 1 : 0;
  out[1] = *fresh != *fresh ? 1 : 0;
}

__global__ void half_warp_kernel() {
  if (cuda::lane() < 16) __syncwarp();
}
__global__ void meet_if_kernel(const int* whole) {
  if (*whole != 0 || cuda::lane() < 16) __syncwarp();
}
__global__ void two_places_kernel() {
  if (threadIdx.x == 7) {
    __syncthreads();
  } else {
    __ballot_sync(kWholeWarp, 1);
  }
}
__global__ void leave_kernel() {
  if (cuda::lane() == 9) return;
  __shfl_xor_sync(kWholeWarp, 1, 1);
}
__global__ void outside_kernel() { __shfl_sync(0x0000ffffU, 1, 0); }
__global__ void behind_shared_kernel() { cuda::shared_memory<int>()[8] = 1; }

__global__ void early_end_kernel(int* out) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void poke_kernel(int* at, std::int64_t index) { at[index] = 1; }

__global__ void misaligned_kernel(int* at) { *reinterpret_cast<int2*>(at + 1) = make_int2(1, 2); }

__global__ void race_kernel(int* out) {
  if (cuda::lane() == 0) out[1] = 1;
  if (cuda::lane() == 31) out[0] = out[1];
}

}  // namespace

void number_threads(cuda::Queue& queue, int* out, int blocks, int threads) {
  launch(queue, "numbers", number_kernel, Grid{blocks, threads, 0}, out);
}
void shuffle_lanes(cuda::Queue& queue, int* out) {
  launch(queue, "shuffles", shuffle_kernel, Grid{1, 32, 0}, out);
}
void sum_in_blocks(cuda::Queue& queue, int* out, int blocks, int threads) {
  const std::size_t bytes = static_cast<std::size_t>(threads) * sizeof(int);
  launch(queue, "sums", sum_kernel, Grid{blocks, threads, bytes}, out);
}
void count_atomically(cuda::Queue& queue, int* counters) {
  launch(queue, "atomics", atomic_kernel, Grid{1, 96, 0}, counters);
}
void look_at_fresh_memory(cuda::Queue& queue, const float* fresh, int* out) {
  launch(queue, "fresh memory", fresh_kernel, Grid{1, 1, 64}, fresh, out);
}
void meet_half_of_a_warp(cuda::Queue& queue) {
  launch(queue, "half a warp", half_warp_kernel, Grid{1, 32, 0});
}
void meet_if(cuda::Queue& queue, const int* whole) {
  launch(queue, "half a warp at times", meet_if_kernel, Grid{1, 32, 0}, whole);
}
void meet_at_two_places(cuda::Queue& queue) {
  launch(queue, "two places", two_places_kernel, Grid{2, 32, 0});
}
void leave_before_a_shuffle(cuda::Queue& queue) {
  launch(queue, "an early end", leave_kernel, Grid{1, 32, 0});
}
void shuffle_outside_the_mask(cuda::Queue& queue) {
  launch(queue, "a wrong mask", outside_kernel, Grid{1, 32, 0});
}
void write_behind_shared_memory(cuda::Queue& queue) {
  launch(queue, "shared memory", behind_shared_kernel, Grid{1, 1, 32});
}
void leave_before_a_barrier(cuda::Queue& queue, int* out) {
  launch(queue, "early ends", early_end_kernel, Grid{1, 64, 0}, out);
}
void poke(cuda::Queue& queue, int* at, std::int64_t index) {
  launch(queue, "poke", poke_kernel, Grid{1, 1, 0}, at, index);
}
void write_misaligned(cuda::Queue& queue, int* at) {
  launch(queue, "a misaligned write", misaligned_kernel, Grid{1, 1, 0}, at);
}
void* poke_function() { return reinterpret_cast<void*>(&poke_kernel); }
void race(cuda::Queue& queue, int* out) { launch(queue, "race", race_kernel, Grid{1, 32, 0}, out); }

}  // namespace heliograph::cuda_emulation
