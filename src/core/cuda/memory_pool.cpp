#include "core/cuda/memory_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "heliograph/error.hpp"

namespace heliograph::cuda {
namespace {

/// Gives the devices of this process's other ranks access to the pool's memory, if they can reach
/// it, for copies between ranks. Each device with access makes allocating slower.
void share(cudaMemPool_t pool, int device, int ranks) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "counting devices");
  for (int other = 0; ranks > 1 && other < std::min(devices, ranks); ++other) {
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

/// Whether an allocation succeeded; false if memory ran out. Throws Error(resource) otherwise.
bool was_there(cudaError_t status, std::size_t bytes, const char* memory) {
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, which the next check would report otherwise
    return false;
  }
  if (status != cudaSuccess) {
    check(status, fmt::format("allocating {} bytes of {}", bytes, memory).c_str());
  }
  return true;
}

/// Zeroes new memory and waits, since copies of messages into it run on other streams. Frees it on
/// failure.
template <class Free>
std::byte* cleared(void* begin, std::size_t bytes, cudaStream_t stream, Free free) {
  cudaError_t status = cudaMemsetAsync(begin, 0, bytes, stream);
  if (status == cudaSuccess) status = cudaStreamSynchronize(stream);
  if (status != cudaSuccess) free();
  check(status, "clearing new memory");
  return static_cast<std::byte*>(begin);
}

/// Describes the free memory of the calling thread's device.
std::string free_memory() {
  int device = 0;
  std::size_t free = 0, total = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) status = cudaMemGetInfo(&free, &total);
  if (status == cudaSuccess) {
    return fmt::format("CUDA device {} has {} of {} bytes free", device, free, total);
  }
  cudaGetLastError();  // clears the error, which the next check would report otherwise
  return fmt::format("the CUDA device does not tell what it has free: {}",
                     cudaGetErrorString(status));
}

}  // namespace

MemoryPool::MemoryPool(Queue& queue, int ranks) : queue_(queue) {
  int supported = 0;
  check(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, queue.device()),
        "reading whether it has memory pools");
  if (supported == 0) throw Error(ErrorCode::resource, "CUDA device: it has no memory pools");
  check(cudaDeviceGetDefaultMemPool(&pool_, queue.device()), "getting its memory pool");
  // By default each wait would return all free memory to the system.
  std::uint64_t kept = UINT64_MAX;
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &kept),
        "setting up its memory pool");
  share(pool_, queue.device(), ranks);
}

MemoryPool::~MemoryPool() {
  if (devices_abandoned()) return;
  // Errors are ignored: an earlier call has reported them.
  cudaStreamSynchronize(queue_.stream());
  cudaMemPoolTrimTo(pool_, 0);
}

std::byte* MemoryPool::take(std::size_t bytes) {
  void* begin = nullptr;
  const cudaError_t status = cudaMallocAsync(&begin, bytes, queue_.stream());
  if (!was_there(status, bytes, "memory")) return nullptr;
  return cleared(begin, bytes, queue_.stream(), [&] { cudaFreeAsync(begin, queue_.stream()); });
}

std::string MemoryPool::shortage() const { return free_memory(); }

void MemoryPool::give_back(std::byte* begin, std::size_t /*bytes*/) noexcept {
  if (!devices_abandoned()) cudaFreeAsync(begin, queue_.stream());
}

std::byte* MessageMemory::take(std::size_t bytes) {
  void* begin = nullptr;
  if (!was_there(cudaMalloc(&begin, bytes), bytes, "memory")) return nullptr;
  return cleared(begin, bytes, cudaStreamPerThread, [&] { cudaFree(begin); });
}

std::string MessageMemory::shortage() const { return free_memory(); }

void MessageMemory::give_back(std::byte* begin, std::size_t /*bytes*/) noexcept {
  if (!devices_abandoned()) cudaFree(begin);
}

std::byte* PageLockedMemory::take(std::size_t bytes) {
  void* begin = nullptr;
  const cudaError_t status = cudaMallocHost(&begin, bytes);
  if (!was_there(status, bytes, "page-locked host memory")) return nullptr;
  std::memset(begin, 0, bytes);
  return static_cast<std::byte*>(begin);
}

std::string PageLockedMemory::shortage() const {
  return "the host gives no more page-locked memory";
}

void PageLockedMemory::give_back(std::byte* begin, std::size_t /*bytes*/) noexcept {
  if (!devices_abandoned()) cudaFreeHost(begin);  // waits for all work of the device
}

}  // namespace heliograph::cuda
