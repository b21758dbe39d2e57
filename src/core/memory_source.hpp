#pragma once

#include <cstddef>
#include <string>

namespace heliograph {

/// Where buffers come from: a rank's arena on the host, or the memory of its device.
class MemorySource {
 public:
  virtual ~MemorySource() = default;

  /// Zeroed, 64-byte aligned. Null if there is no more; throws Error where something else failed.
  virtual std::byte* take(std::size_t bytes) = 0;
  /// What there is to say of `take` when it has just given null: whose memory it is, how much is
  /// free. May be empty.
  virtual std::string shortage() const { return {}; }
  /// Takes back what `take(bytes)` gave.
  virtual void give_back(std::byte* begin, std::size_t bytes) noexcept = 0;
};

}  // namespace heliograph
