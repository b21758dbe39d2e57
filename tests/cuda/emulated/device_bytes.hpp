#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime.hpp"

namespace heliograph::test {

/// Bytes in the memory of the calling thread's device. They come and go without calls of CUDA,
/// which might have to wait for messages in flight.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) : bytes_(bytes) {
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    cuda_emulation::Runtime& r = cuda_emulation::runtime();
    const std::lock_guard guard(r.lock);
    data_ = static_cast<std::byte*>(r.memory.take(bytes + 1, cuda_emulation::current_device,
                                                  cuda_emulation::DeviceMemory::Kind::plain));
  }
  ~DeviceBytes() {
    cudaStreamDestroy(stream_);
    cuda_emulation::Runtime& r = cuda_emulation::runtime();
    const std::lock_guard guard(r.lock);
    r.memory.retire(data_);
    r.memory.give_back(data_);
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  std::byte* data() const { return data_; }

  void fill(std::uint8_t value) {
    cudaMemsetAsync(data_, value, bytes_, stream_);
    cudaStreamSynchronize(stream_);
  }
  std::vector<std::uint8_t> read() const {
    std::vector<std::uint8_t> host(bytes_);
    cudaMemcpyAsync(host.data(), data_, bytes_, cudaMemcpyDeviceToHost, stream_);
    cudaStreamSynchronize(stream_);
    return host;
  }

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace heliograph::test
