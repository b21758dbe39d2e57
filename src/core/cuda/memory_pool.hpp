#pragma once

#include "core/cuda/runtime.hpp"
#include "core/memory_source.hpp"

namespace heliograph::cuda {

/// Device memory in the order of one queue: what is given back may be taken again by what the queue
/// does later. The device keeps it for this process. 256-byte aligned.
class MemoryPool final : public MemorySource {
 public:
  /// `queue` must outlive it. Throws Error(resource) where the device has no memory pools.
  explicit MemoryPool(Queue& queue);

  std::byte* take(std::size_t bytes) noexcept override;
  void give_back(std::byte* begin, std::size_t bytes) noexcept override;

 private:
  Queue& queue_;
};

/// Page-locked host memory: the device copies to and from it at full rate, and meanwhile.
class PageLockedMemory final : public MemorySource {
 public:
  std::byte* take(std::size_t bytes) noexcept override;
  void give_back(std::byte* begin, std::size_t bytes) noexcept override;
};

}  // namespace heliograph::cuda
