#include <cuda_runtime.h>

#include <string>

#include "core/device.hpp"
#include "heliograph/error.hpp"

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
  cudaGetLastError();  // else it would be taken for that of a later call
  return {0, devices.status};
}

}  // namespace

int cuda_devices() noexcept { return find_devices().count; }

int require_cuda_devices(const char* flag) {
  const Devices devices = find_devices();
  if (devices.count > 0) return devices.count;
  throw Error(ErrorCode::usage, std::string(flag) + ": there is no CUDA device that can be used: " +
                                    cudaGetErrorString(devices.status));
}

}  // namespace heliograph
