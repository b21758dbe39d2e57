#include "core/cuda/memory_pool.hpp"

#include <cstdint>
#include <cstring>

#include "heliograph/error.hpp"

namespace heliograph::cuda {
namespace {

/// Lets the other devices that can read and write the pool's memory do so, for copies between
/// ranks.
void share(cudaMemPool_t pool, int device) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "counting devices");
  for (int other = 0; other < devices; ++other) {
    int reaches = 0;
    if (other != device) {
      check(cudaDeviceCanAccessPeer(&reaches, other, device), "asking what other devices reach");
    }
    if (reaches == 0) continue;
    cudaMemAccessDesc access{};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = other;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    check(cudaMemPoolSetAccess(pool, &access, 1), "sharing its memory pool");
  }
}

}  // namespace

MemoryPool::MemoryPool(Queue& queue) : queue_(queue) {
  int supported = 0;
  check(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, queue.device()),
        "asking for its memory pools");
  if (supported == 0) throw Error(ErrorCode::resource, "CUDA device: it has no memory pools");
  check(cudaDeviceGetDefaultMemPool(&pool_, queue.device()), "asking for its memory pool");
  // Otherwise each wait would give all free memory back to the system.
  std::uint64_t kept = UINT64_MAX;
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &kept),
        "setting up its memory pool");
  share(pool_, queue.device());
}

MemoryPool::~MemoryPool() {
  if (devices_abandoned()) return;
  // Whatever fails here has failed before.
  cudaStreamSynchronize(queue_.stream());
  cudaMemPoolTrimTo(pool_, 0);
}

// A device that has failed gives nothing either; the next checked call says why.
std::byte* MemoryPool::take(std::size_t bytes) noexcept {
  void* begin = nullptr;
  if (cudaMallocAsync(&begin, bytes, queue_.stream()) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  // Waited for: copies of messages into it run on other streams.
  if (cudaMemsetAsync(begin, 0, bytes, queue_.stream()) != cudaSuccess ||
      cudaStreamSynchronize(queue_.stream()) != cudaSuccess) {
    cudaGetLastError();
    cudaFreeAsync(begin, queue_.stream());
    return nullptr;
  }
  return static_cast<std::byte*>(begin);
}

void MemoryPool::give_back(std::byte* begin, std::size_t /*bytes*/) noexcept {
  if (!devices_abandoned()) cudaFreeAsync(begin, queue_.stream());
}

std::byte* MessageMemory::take(std::size_t bytes) noexcept {
  void* begin = nullptr;
  if (cudaMalloc(&begin, bytes) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  if (cudaMemsetAsync(begin, 0, bytes, cudaStreamPerThread) != cudaSuccess ||
      cudaStreamSynchronize(cudaStreamPerThread) != cudaSuccess) {
    cudaGetLastError();
    cudaFree(begin);
    return nullptr;
  }
  return static_cast<std::byte*>(begin);
}

void MessageMemory::give_back(std::byte* begin, std::size_t /*bytes*/) noexcept {
  if (!devices_abandoned()) cudaFree(begin);
}

std::byte* PageLockedMemory::take(std::size_t bytes) noexcept {
  void* begin = nullptr;
  if (cudaMallocHost(&begin, bytes) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  std::memset(begin, 0, bytes);
  return static_cast<std::byte*>(begin);
}

void PageLockedMemory::give_back(std::byte* begin, std::size_t /*bytes*/) noexcept {
  if (!devices_abandoned()) cudaFreeHost(begin);  // Waits for all that the device does.
}

}  // namespace heliograph::cuda
