#pragma once

#include <cstddef>
#include <string>

namespace heliograph {

/// Size of a cache line in bytes, to which all buffers are aligned.
inline constexpr std::size_t kLineBytes = 64;

/// The least multiple of `unit` that is at least `value`, which is not negative.
template <class T>
constexpr T round_up(T value, T unit) {
  return (value + unit - 1) / unit * unit;
}

/// Allocates the memory of buffers: a rank's arena on the host, or the memory of its device.
class MemorySource {
 public:
  virtual ~MemorySource() = default;

  /// Returns zeroed, 64-byte aligned memory; null if there is none left. Throws Error otherwise.
  virtual std::byte* take(std::size_t bytes) = 0;
  /// Explains a `take` that has just returned null: whose memory it is and how much is free. May
  /// be empty.
  virtual std::string shortage() const { return {}; }
  /// Releases memory that `take(bytes)` returned.
  virtual void give_back(std::byte* begin, std::size_t bytes) noexcept = 0;
};

}  // namespace heliograph
