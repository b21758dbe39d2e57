#pragma once

#include "core/cuda/memory_pool.hpp"
#include "core/cuda/runtime.hpp"
#include "core/device.hpp"

namespace heliograph::cuda {

/// One rank's view of a CUDA device: its own queue, and a memory pool in the order of that queue.
class CudaDevice final : public Device {
 public:
  /// Selects device `index` for the calling thread. `ranks`: as in CudaOptions. Throws
  /// Error(resource).
  CudaDevice(int index, int threads, int ranks = 1)
      : Device(threads), queue_(index), pool_(queue_, ranks) {}

  MemorySource* memory() override { return &pool_; }
  MemorySource* page_locked() override { return &page_locked_; }
  Queue* queue() override { return &queue_; }

  void begin_repeated() override { queue_.begin_repeated(); }
  void end_repeated() noexcept override { queue_.end_repeated(); }
  bool can_record() const override { return queue_.can_record(); }
  void record() override { queue_.record(); }
  void finish() override { queue_.finish(); }
  void upload(void* to, const void* host, std::size_t bytes) override {
    queue_.upload(to, host, bytes);
  }
  void upload_page_locked(void* to, const void* host, std::size_t bytes) override {
    queue_.upload_page_locked(to, host, bytes);
  }
  void download(void* host, const void* from, std::size_t bytes) override {
    queue_.download(host, from, bytes);
  }

 private:
  Queue queue_;
  MemoryPool pool_;
  PageLockedMemory page_locked_;
};

}  // namespace heliograph::cuda
