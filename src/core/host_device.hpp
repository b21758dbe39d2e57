#pragma once

// HELIOGRAPH_HOST_DEVICE marks a function that is compiled for the host and for CUDA devices.

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define HELIOGRAPH_HOST_DEVICE __host__ __device__
#else
#define HELIOGRAPH_HOST_DEVICE
#endif
