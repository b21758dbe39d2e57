#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/cuda/runtime.hpp"

namespace heliograph::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kWholeWarp = 0xffffffffU;

/// A grid of blocks of `threads` with at least `count` threads in all.
constexpr Grid cover(std::int64_t count, int threads = 256) {
  return {(count + threads - 1) / threads, threads, 0};
}
/// A grid of blocks of `threads` with at least `count` warps in all.
constexpr Grid cover_by_warps(std::int64_t count, int threads = 256) {
  return cover(count * kWarp, threads);
}

/// KernelWork::Start for kernels with these parameter types.
template <class... Parameters>
cudaError_t start_kernel(void* function, Grid grid, void** arguments, cudaStream_t stream) {
  // The template argument is explicit because nvcc 12.4 cannot deduce it from this pointer.
  return cudaLaunchKernel<void(Parameters...)>(
      reinterpret_cast<void (*)(Parameters...)>(function), dim3(static_cast<unsigned>(grid.blocks)),
      dim3(static_cast<unsigned>(grid.threads)), arguments, grid.shared_bytes, stream);
}

/// Zeroes the padding of `value`, so that equal values have equal bytes.
template <class T>
void clear_padding([[maybe_unused]] T& value) {
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&value);
#endif
}

/// Asks `queue` for kernel(arguments...); does nothing for a grid without blocks. `name` is for the
/// error message.
template <class... Parameters, class... Arguments>
void launch(Queue& queue, const char* name, void (*kernel)(Parameters...), Grid grid,
            const Arguments&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  if (grid.blocks == 0) return;
  if (grid.blocks > std::numeric_limits<std::int32_t>::max()) check(cudaErrorInvalidValue, name);
  const auto start = [&](Parameters... converted) {
    (clear_padding(converted), ...);
    std::array<void*, sizeof...(Parameters)> pointers{static_cast<void*>(&converted)...};
    constexpr std::array<std::size_t, sizeof...(Parameters)> kSizes{sizeof(Parameters)...};
    queue.ask(KernelWork{name, reinterpret_cast<void*>(kernel), &start_kernel<Parameters...>, grid,
                         pointers, kSizes});
  };
  start(arguments...);
}

#if defined(__CUDACC__)

/// The block's dynamic shared memory, of grid.shared_bytes bytes.
template <class T>
__device__ T* shared_memory() {
  extern __shared__ __align__(16) unsigned char heliograph_shared[];
  return reinterpret_cast<T*>(heliograph_shared);
}

// Number of this thread and warp in the whole grid, and of this lane in its warp.
__device__ inline std::int64_t global_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t global_warp() { return global_thread() / kWarp; }
__device__ inline int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

/// The combination, in a fixed order, of the values of each group of `lanes` neighbouring lanes, a
/// power of 2; all of them get it. Every lane of the warp must call it.
template <class T, class Combine>
__device__ T lanes_combine(T value, int lanes, const Combine& combine) {
  for (int step = lanes / 2; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(kWholeWarp, value, step));
  }
  return value;
}
template <class T>
__device__ T lanes_sum(T value, int lanes) {
  return lanes_combine(value, lanes, [](T mine, T other) { return mine + other; });
}
template <class T>
__device__ T lanes_max(T value, int lanes) {
  return lanes_combine(value, lanes, [](T mine, T other) { return other > mine ? other : mine; });
}
template <class T>
__device__ T warp_sum(T value) {
  return lanes_sum(value, kWarp);
}
template <class T>
__device__ T warp_max(T value) {
  return lanes_max(value, kWarp);
}

#endif

}  // namespace heliograph::cuda
