#include <cuda_runtime.h>

#include "core/copy_bytes.hpp"
#include "core/cuda/runtime.hpp"

namespace heliograph {

void copy_by_cuda(std::byte* to, const std::byte* from, std::size_t bytes) {
  // A stream of the calling thread's own: it waits for no rank's kernels.
  cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cudaStreamPerThread),
              "copy a message");
  cuda::check(cudaStreamSynchronize(cudaStreamPerThread), "copy a message");
}

std::optional<std::int64_t> cuda_available_bytes() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return std::nullopt;
  int selected = 0;
  cuda::check(cudaGetDevice(&selected), "tell the selected device");
  std::int64_t sum = 0;
  for (int device = 0; device < devices; ++device) {
    std::size_t free = 0, total = 0;
    cuda::check(cudaSetDevice(device), "select a device");
    cuda::check(cudaMemGetInfo(&free, &total), "tell its free memory");
    sum += static_cast<std::int64_t>(free);
  }
  cuda::check(cudaSetDevice(selected), "select a device");
  return sum;
}

}  // namespace heliograph
