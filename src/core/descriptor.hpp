#pragma once

#include <unistd.h>

#include <utility>

namespace heliograph {

/// Owns a file descriptor and closes it when destroyed; -1 means none.
class Descriptor {
 public:
  explicit Descriptor(int descriptor = -1) : descriptor_(descriptor) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : descriptor_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  int get() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  void close() noexcept {
    if (open()) ::close(release());
  }
  /// Hands the descriptor to the caller, who must close it.
  int release() noexcept { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

}  // namespace heliograph
