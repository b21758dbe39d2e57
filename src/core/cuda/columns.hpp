#pragma once

#include "core/cuda/launch.hpp"

// A row of a matrix among the lanes of one warp: lane l has columns l, l + 32, ... For device
// sources.

namespace heliograph::cuda {

/// Columns of a lane that stay in registers: rows of up to 256 columns are read once.
inline constexpr int kHeldColumns = 8;
inline constexpr std::int64_t kHeldRow = kHeldColumns * kWarp;

#if defined(__CUDACC__)

/// body(i, column) for each column of this lane. With kHeld the row has up to kHeldRow columns and
/// i is known to the compiler, so that element i of an array is a register; else i is 0.
template <bool kHeld, class Body>
__device__ void each_column(std::int64_t cols, const Body& body) {
  if constexpr (kHeld) {
#pragma unroll
    for (int i = 0; i < kHeldColumns; ++i) {
      const int c = lane() + i * kWarp;
      if (c < cols) body(i, c);
    }
  } else {
    for (std::int64_t c = lane(); c < cols; c += kWarp) body(0, c);
  }
}

#endif

}  // namespace heliograph::cuda
