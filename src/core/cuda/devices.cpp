#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>

#include "core/copy_bytes.hpp"
#include "core/cuda/memory_pool.hpp"
#include "core/cuda/runtime.hpp"
#include "core/kernels.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

struct Devices {
  int count = 0;
  cudaError_t status = cudaSuccess;
};

Devices find_devices() noexcept {
  Devices devices;
  devices.status = cudaGetDeviceCount(&devices.count);
  if (devices.status == cudaSuccess && devices.count == 0) devices.status = cudaErrorNoDevice;
  if (devices.status == cudaSuccess) return devices;
  cudaGetLastError();  // clears the error, which a later call would report otherwise
  return {0, devices.status};
}

}  // namespace

int cuda_devices() noexcept { return find_devices().count; }

int require_cuda_devices(const char* flag) {
  const Devices devices = find_devices();
  if (devices.count > 0) return devices.count;
  throw_error(ErrorCode::usage, "{}: there is no CUDA device that can be used: {}",
              spell_options(flag), cudaGetErrorString(devices.status));
}

void select_cuda_device(int rank) {
  const int devices = cuda_devices();
  if (devices > 0) cuda::check(cudaSetDevice(rank % devices), "selecting the device");
}

std::unique_ptr<MemorySource> make_cuda_message_memory() {
  return std::make_unique<cuda::MessageMemory>();
}

std::optional<std::int64_t> cuda_available_bytes(int ranks) {
  const int devices = std::min(cuda_devices(), ranks);
  if (devices == 0) return std::nullopt;
  int selected = 0;
  cuda::check(cudaGetDevice(&selected), "reading the selected device");
  std::int64_t sum = 0;
  for (int device = 0; device < devices; ++device) {
    std::size_t free = 0, total = 0;
    cuda::check(cudaSetDevice(device), "selecting a device");
    cuda::check(cudaMemGetInfo(&free, &total), "reading its free memory");
    sum += static_cast<std::int64_t>(free);
  }
  cuda::check(cudaSetDevice(selected), "selecting the device");
  return sum;
}

void load_cuda_kernels_at_once() noexcept { setenv("CUDA_MODULE_LOADING", "EAGER", 0); }

}  // namespace heliograph
