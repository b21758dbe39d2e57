#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

#include "core/cuda/work.hpp"

namespace heliograph::cuda {

/// Throws Error(resource) "CUDA device: WHAT: why" unless `status` is success.
void check(cudaError_t status, const char* what);

/// Ends all waits for devices: messages in flight will never complete, so device memory is left to
/// the end of the process. False undoes this, for tests.
void abandon_devices(bool now = true) noexcept;
/// Whether abandon_devices() is in effect.
bool devices_abandoned() noexcept;
/// Throws Error(resource) if devices are abandoned; called before any new work or wait.
void refuse_abandoned_devices();

class Replay;

/// Called while a wait lasts, first with true. Throws if the wait should end.
using Look = std::function<void(bool first)>;

/// The compute stream of one rank: all work of its kernels runs on it, in the order of the calls
/// and asynchronously. Used by the rank's own thread. Every call but `stream` throws
/// Error(resource), also for the failure of an earlier call.
class Queue {
 public:
  /// Selects `device` for the calling thread. Throws Error(resource).
  explicit Queue(int device);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  int device() const { return device_; }
  /// The CUDA stream, once all work asked for is on it. If that fails, the next other call throws.
  cudaStream_t stream() noexcept;
  int processors() const { return processors_; }  ///< Multiprocessors of the device.

  /// Begins a stretch whose work resembles that of the last stretch: runs of kernels, products and
  /// clearing of which `record` has made CUDA graphs are launched as such. They reach the stream no
  /// later than the next copy, wait or other use of it. A stretch that differs only costs time.
  void begin_repeated();
  /// Ends the stretch that `begin_repeated` began.
  void end_repeated() noexcept;
  /// Whether `record` would make or free graphs.
  bool can_record() const;
  /// Makes graphs of the runs that the last two stretches have in common. Waits for the stream, and
  /// perhaps for all work of all devices.
  void record();

  /// Asks for work, in order.
  void ask(const KernelWork& work);
  void ask(const LibraryWork& work);
  /// Waits until all work asked for is done. Throws Error(resource) if any of it failed, once none
  /// of it runs any more, or if devices are abandoned, and what `look` of `wait_for` throws.
  void finish();
  /// Records `event` behind the work asked for so far.
  void mark(cudaEvent_t event);
  /// Work asked for from now on waits for `event`, which may depend on other ranks. Waits for the
  /// queue call `look` until one of `finish` is over. It must live until then, and when it throws,
  /// nothing may hold up the event any more unless devices are abandoned.
  void wait_for(cudaEvent_t event, const Look& look);
  /// Copies as those of Device do.
  void upload(void* to, const void* host, std::size_t bytes);
  void upload_page_locked(void* to, const void* host, std::size_t bytes);
  void download(void* host, const void* from, std::size_t bytes);
  /// Zeroes `bytes` of device memory, in order.
  void clear(void* at, std::size_t bytes);

 private:
  /// Page-locked memory that uploads pass through, and an event after the last copy out of it.
  struct Stage {
    std::byte* memory = nullptr;
    cudaEvent_t read = nullptr;
  };
  void release() noexcept;
  /// `stream()`, but throws Error(resource) if some work could not be put on it.
  cudaStream_t complete_stream();
  void throw_failure();
  /// Waits by `wait`, or by calling `done` until it is, so that `look_` can end the wait.
  template <class Done, class Wait>
  cudaError_t await(Done done, Wait wait);

  int device_;
  int processors_ = 0;
  cudaStream_t bare_stream_ = nullptr;  ///< The stream; work of a repeated stretch may be missing.
  std::unique_ptr<Replay> replay_;      ///< Null before the first repeated stretch.
  bool repeats_ = false;
  const Look* look_ = nullptr;  ///< Null if no work depends on other ranks.
  std::exception_ptr failure_;  ///< The failure that `stream` could not throw.
  std::array<Stage, 2> stages_;
  std::size_t next_stage_ = 0;
};

}  // namespace heliograph::cuda
