#pragma once

#include <cstddef>
#include <cstring>

#include "core/memory_source.hpp"
#include "core/thread_pool.hpp"

namespace heliograph {

namespace cuda {
class Queue;
}

/// Where a rank computes, but for the arithmetic (Kernels): its memory, copies, the order of its
/// work, and the CPU threads beside it. Used by the rank's own thread. This one is the host, where
/// work is done when its call returns. On another device it is done in order but later: the host
/// reads what was written after `finish` or by `download`, and a failure (Error(resource)) may show
/// at any later call.
class Device {
 public:
  /// `threads`: of the pool; 1 starts none.
  explicit Device(int threads) : threads_(threads) {}
  virtual ~Device() = default;

  /// CPU threads for work around the kernels (encoding, gathering).
  ThreadPool& threads() { return threads_; }

  /// Memory that lies on the device; null where that is the host's. Lives as long as the device.
  virtual MemorySource* memory() { return nullptr; }
  bool on_host() { return memory() == nullptr; }
  /// Host memory from and to which copies are fast; null where there are none. Lives as long.
  virtual MemorySource* page_locked() { return nullptr; }
  /// The queue on which a CUDA device's work is ordered; null on the host.
  virtual cuda::Queue* queue() { return nullptr; }

  /// From here to the end, the calls will be much the same again the next time that it begins: a
  /// device may prepare for that.
  virtual void begin_repeated() {}
  virtual void end_repeated() noexcept {}
  /// Waits until all that was asked so far is done.
  virtual void finish() {}
  /// Copies from the host to the device, in order; `host` may be reused when it returns.
  virtual void upload(void* to, const void* host, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, host, bytes);
  }
  /// The same from memory of `page_locked`, without a copy between: `host` must stay as it is until
  /// a wait for the device that follows.
  virtual void upload_page_locked(void* to, const void* host, std::size_t bytes) {
    upload(to, host, bytes);
  }
  /// Waits for what was asked before, and copies from the device to the host.
  virtual void download(void* host, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(host, from, bytes);
  }

 private:
  ThreadPool threads_;
};

/// Whether this build holds the CUDA kernels.
bool cuda_built() noexcept;

/// CUDA devices that this process can use; 0 where the build has no CUDA, or the machine no device.
int cuda_devices() noexcept;
/// The same, of which there is one at least. Throws Error(usage) where there is none: "FLAG: there
/// is no CUDA device that can be used: WHY".
int require_cuda_devices(const char* flag);

}  // namespace heliograph
