#pragma once

#include <cstddef>

namespace heliograph {

/// Where buffers come from: a rank's arena on the host, or the memory of its device.
class MemorySource {
 public:
  virtual ~MemorySource() = default;

  /// Zeroed, 64-byte aligned. Null if there is no more; throws Error where there is more to say.
  virtual std::byte* take(std::size_t bytes) = 0;
  /// Takes back what `take(bytes)` gave.
  virtual void give_back(std::byte* begin, std::size_t bytes) noexcept = 0;
};

}  // namespace heliograph
