#pragma once

#include <cstdint>

#include "core/cuda/runtime.hpp"
#include "core/kernels.hpp"

namespace heliograph::cuda {

/// One step on `count` values; all of them lie on the device.
void adam(Queue& queue, float* value, const float* gradient, float* m, float* v,
          const AdamStep& step, std::int64_t count);

}  // namespace heliograph::cuda
