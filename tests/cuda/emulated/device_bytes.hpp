#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heliograph::test {

/// Bytes in the memory of the calling thread's device.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes) : bytes_(bytes) {
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    cudaMallocAsync(&data_, bytes + 1, stream_);
  }
  ~DeviceBytes() {
    cudaFreeAsync(data_, stream_);
    cudaStreamDestroy(stream_);
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
