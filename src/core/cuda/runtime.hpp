#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <exception>
#include <memory>

#include "core/cuda/work.hpp"

namespace heliograph::cuda {

/// Every CUDA call goes through here. Throws Error(resource): "CUDA device: WHAT: why".
void check(cudaError_t status, const char* what);

/// From now on nothing waits for a device any more, and what it holds is left to the process's end:
/// messages in flight will never be done. (False takes that back: for tests.)
void abandon_devices(bool now = true) noexcept;
bool devices_abandoned() noexcept;
/// Throws Error(resource) if they were: by who would begin something new, or wait.
void refuse_abandoned_devices();

class Replay;

/// The compute stream of one rank: everything that its kernels do happens on it, in the order of
/// the calls, while the thread that asked goes on. Used by the rank's own thread. Every call but
/// `stream` throws Error(resource), also for what an earlier one could not ask for.
class Queue {
 public:
  /// Selects `device` for the calling thread. Throws Error(resource).
  explicit Queue(int device);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  int device() const { return device_; }
  /// With all that was asked so far on it; where that failed, the next call that may throw says so.
  cudaStream_t stream() noexcept;
  int processors() const { return processors_; }  ///< Multiprocessors of the device.

  /// From here to the end, kernels, products and clearing are asked for as in the last such
  /// stretch, where what comes in between (copies, waits, other work on the stream) is the same:
  /// then CUDA graphs take their place. What is asked for may reach the device as late as what
  /// follows in between. Stretches that differ cost time, no more.
  void begin_repeated();
  void end_repeated() noexcept;

  /// Asks for work, in order.
  void ask(const KernelWork& work);
  void ask(const LibraryWork& work);
  /// Waits until all that was asked so far is done. Throws Error(resource) where any of it failed,
  /// then too when nothing of it runs any more, unless devices were abandoned.
  void finish();
  /// As of Device.
  void upload(void* to, const void* host, std::size_t bytes);
  void upload_page_locked(void* to, const void* host, std::size_t bytes);
  void download(void* host, const void* from, std::size_t bytes);
  /// Zeroes `bytes` of device memory, in order.
  void clear(void* at, std::size_t bytes);

 private:
  /// Page-locked memory through which uploads go, and the end of the last copy out of it.
  struct Stage {
    std::byte* memory = nullptr;
    cudaEvent_t read = nullptr;
  };
  void release() noexcept;
  /// `stream`. Throws Error(resource) where not all is on it.
  cudaStream_t complete_stream();
  void throw_failure();

  int device_;
  int processors_ = 0;
  cudaStream_t bare_stream_ = nullptr;  ///< What is to be repeated may not be on it yet.
  std::unique_ptr<Replay> replay_;      ///< Null before anything repeats.
  bool repeats_ = false;
  std::exception_ptr failure_;  ///< What `stream` could not say.
  std::array<Stage, 2> stages_;
  std::size_t next_stage_ = 0;
};

}  // namespace heliograph::cuda
