// Checks in seconds, before the build, that nvcc, its host compiler, the driver and a device work
// together. Prints the number of devices and a line about each. Exit codes: 0; 3 if no device runs
// its kernel.
#include <cublasLt.h>

#include <concepts>
#include <cstdio>

__global__ void add_one(std::integral auto* value) { *value += 1; }

int main() {
  int count = 0, value = 0;
  int* on_device = nullptr;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) error = cudaMalloc(&on_device, sizeof value);
  if (error == cudaSuccess) error = cudaMemset(on_device, 0, sizeof value);
  if (error == cudaSuccess) {
    add_one<<<1, 1>>>(on_device);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) {
    error = cudaMemcpy(&value, on_device, sizeof value, cudaMemcpyDeviceToHost);
  }
  if (error != cudaSuccess || value != 1) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return 3;
  }
  std::printf("%d\n", count);
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp about{};
    if (cudaGetDeviceProperties(&about, device) != cudaSuccess) return 3;
    std::printf("%s, compute capability %d.%d, %.1f GiB\n", about.name, about.major, about.minor,
                static_cast<double>(about.totalGlobalMem) / (1 << 30));
  }
}
