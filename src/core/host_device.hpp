#pragma once

// Marks a function that host and device compilers both read.

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define HELIOGRAPH_HOST_DEVICE __host__ __device__
#else
#define HELIOGRAPH_HOST_DEVICE
#endif
