#pragma once

#include <cstddef>
#include <cstring>

#include "core/memory_source.hpp"
#include "core/thread_pool.hpp"

namespace heliograph {

namespace cuda {
class Queue;
}

/// The device on which one rank computes: its memory, copies, order of work and CPU threads; the
/// arithmetic is in Kernels. Used by the rank's own thread. This class is the host, where work is
/// done when its call returns. Another device works later, in order: the host reads results after
/// `finish` or by `download`, and any later call may report a failure as Error(resource).
class Device {
 public:
  /// Makes a pool of `threads` CPU threads, of which the calling thread is one.
  explicit Device(int threads) : threads_(threads) {}
  virtual ~Device() = default;

  /// The CPU threads, for work around the kernels such as encoding and gathering.
  ThreadPool& threads() { return threads_; }

  /// Source of device memory, which lives as long as the device; null if it is the host's.
  virtual MemorySource* memory() { return nullptr; }
  bool on_host() { return memory() == nullptr; }
  /// Source of page-locked host memory, with the device's lifetime; null if there is none.
  virtual MemorySource* page_locked() { return nullptr; }
  /// The queue that orders the work of a CUDA device; null on the host.
  virtual cuda::Queue* queue() { return nullptr; }

  /// Announces that the calls up to `end_repeated` resemble those of the last such stretch, so that
  /// the device can replay what `record` has recorded.
  virtual void begin_repeated() {}
  /// Ends the stretch that `begin_repeated` began.
  virtual void end_repeated() noexcept {}
  /// Whether there is something to record: calls that two stretches in a row have made alike.
  virtual bool can_record() const { return false; }
  /// Records such calls for later stretches. It may wait for all work of all devices, so it is
  /// called between two stretches, while no message is in flight that waits for another rank.
  virtual void record() {}
  /// Waits until all work that was asked for is done.
  virtual void finish() {}
  /// Copies from the host to the device, in order; `host` may be reused when the call returns.
  virtual void upload(void* to, const void* host, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, host, bytes);
  }
  /// Copies from memory of `page_locked` to the device without an intermediate copy: `host` must
  /// not change before a later wait for the device.
  virtual void upload_page_locked(void* to, const void* host, std::size_t bytes) {
    upload(to, host, bytes);
  }
  /// Waits for all earlier work, then copies from the device to the host.
  virtual void download(void* host, const void* from, std::size_t bytes) {
    if (bytes > 0) std::memcpy(host, from, bytes);
  }

 private:
  ThreadPool threads_;
};

/// Whether this build contains the CUDA kernels.
bool cuda_built() noexcept;

/// Number of CUDA devices that this process can use; 0 in a build without CUDA.
int cuda_devices() noexcept;
/// Number of CUDA devices that this process can use, at least 1. Throws Error(usage) if there is
/// none: "FLAG: there is no CUDA device that can be used: WHY".
int require_cuda_devices(const char* flag);

}  // namespace heliograph
