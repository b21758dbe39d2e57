#pragma once

#include "core/cuda/runtime.hpp"
#include "core/kernels.hpp"

namespace heliograph::cuda {

/// The queue on which `kernels` run. Throws Error(usage) where they are not CUDA's.
Queue& queue_of(Kernels& kernels);

}  // namespace heliograph::cuda
