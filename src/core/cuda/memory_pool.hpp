#pragma once

#include <cstddef>
#include <string>

#include "core/cuda/runtime.hpp"
#include "core/memory_source.hpp"

namespace heliograph::cuda {

/// Device memory, 256-byte aligned, that is allocated and freed in the order of one queue. Freed
/// memory stays with the process while a pool of the device exists.
class MemoryPool final : public MemorySource {
 public:
  /// `queue` must outlive the pool. `ranks`: as in CudaOptions. Throws Error(resource) if the
  /// device has no memory pools.
  MemoryPool(Queue& queue, int ranks);
  /// Waits for the queue and returns freed memory to the system.
  ~MemoryPool() override;
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  std::byte* take(std::size_t bytes) override;
  std::string shortage() const override;
  void give_back(std::byte* begin, std::size_t bytes) noexcept override;

 private:
  Queue& queue_;
  cudaMemPool_t pool_ = nullptr;  ///< The device's default pool.
};

/// Memory of the calling thread's device outside any pool, so that other processes can map it.
class MessageMemory final : public MemorySource {
 public:
  std::byte* take(std::size_t bytes) override;
  std::string shortage() const override;
  void give_back(std::byte* begin, std::size_t bytes) noexcept override;
};

/// Page-locked host memory, which Queue::upload_page_locked and downloads copy at full rate.
class PageLockedMemory final : public MemorySource {
 public:
  std::byte* take(std::size_t bytes) override;
  std::string shortage() const override;
  void give_back(std::byte* begin, std::size_t bytes) noexcept override;
};

}  // namespace heliograph::cuda
