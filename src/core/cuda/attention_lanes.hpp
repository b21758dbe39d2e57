#pragma once

#include <cstdint>

#include "core/cuda/launch.hpp"

// How the lanes of a warp share the heads of a row: `lanes` neighbouring ones have a head, the next
// ones the next head, and where the heads fill only a part of the warp, other parts repeat them.

namespace heliograph::cuda {

/// The share of a warp that one head gets, and the heads of one warp; both are powers of 2.
struct HeadLanes {
  int lanes = 1;
  int heads = 1;
};

/// For heads of `cols` columns, of which a lane takes `each` at once if the warp suffices.
inline HeadLanes head_lanes(std::int64_t heads, std::int64_t cols, std::int64_t each) {
  HeadLanes result;
  while (result.lanes < kWarp && result.lanes * each < cols) result.lanes *= 2;
  while (result.heads * result.lanes < kWarp && result.heads < heads) result.heads *= 2;
  return result;
}

#if defined(__CUDACC__)

/// Combines the values of the lanes whose numbers differ in the bits from `low` up to below `high`;
/// all of them get the result. Every lane of the warp must call it.
template <class Combine>
__device__ float combine_lanes(float value, int low, int high, const Combine& combine) {
  for (int step = high / 2; step >= low; step /= 2) {
    value = combine(value, __shfl_xor_sync(kWholeWarp, value, step));
  }
  return value;
}
__device__ inline float sum_lanes(float value, int low, int high) {
  return combine_lanes(value, low, high, [](float mine, float other) { return mine + other; });
}

#endif

}  // namespace heliograph::cuda
