#pragma once

#include <cstddef>
#include <string>

#include "core/cuda/runtime.hpp"
#include "core/memory_source.hpp"

namespace heliograph::cuda {

/// Device memory in the order of one queue: what is given back may be taken again by what the queue
/// does later. Kept for this process as long as there is a pool of the device. 256-byte aligned.
class MemoryPool final : public MemorySource {
 public:
  /// `queue` must outlive it. Throws Error(resource) where the device has no memory pools.
  explicit MemoryPool(Queue& queue);
  /// Waits for the queue, and gives what was given back to it to the system.
  ~MemoryPool() override;
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  std::byte* take(std::size_t bytes) override;
  std::string shortage() const override;
  void give_back(std::byte* begin, std::size_t bytes) noexcept override;

 private:
  Queue& queue_;
  cudaMemPool_t pool_ = nullptr;  ///< The device's default one.
};

/// Memory of the calling thread's device that is no pool's, so that other processes can be given
/// it.
class MessageMemory final : public MemorySource {
 public:
  std::byte* take(std::size_t bytes) override;
  std::string shortage() const override;
  void give_back(std::byte* begin, std::size_t bytes) noexcept override;
};

/// Page-locked host memory: the device copies to it and from it at full rate. (Queue::upload copies
/// through stages of its own all the same; Queue::upload_page_locked does not.)
class PageLockedMemory final : public MemorySource {
 public:
  std::byte* take(std::size_t bytes) override;
  std::string shortage() const override;
  void give_back(std::byte* begin, std::size_t bytes) noexcept override;
};

}  // namespace heliograph::cuda
