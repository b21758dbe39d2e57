#pragma once

#include <cstdint>

#include "core/cuda/launch.hpp"

// How lanes share the columns of a row: lane l of kLanes has the columns l, l + kLanes, ...

namespace heliograph::cuda {

inline constexpr int kHeldColumns =
    8;  ///< Columns of a row that a lane keeps in registers at most.
inline constexpr std::int64_t kHeldRow = kHeldColumns * kWarp;

#if defined(__CUDACC__)

/// Runs body(i, column) for each column of this lane. With kHeld > 0 the row has up to
/// kHeld x kLanes columns and i is a constant, so that element i of an array is a register;
/// otherwise i is 0.
template <int kHeld, int kLanes = kWarp, class Body>
__device__ void each_column(std::int64_t cols, const Body& body) {
  const int first = lane() % kLanes;
  if constexpr (kHeld > 0) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int c = first + i * kLanes;
      if (c < cols) body(i, c);
    }
  } else {
    for (std::int64_t c = first; c < cols; c += kLanes) body(0, c);
  }
}

/// The values of this lane's columns. With kHeld > 0 all are loaded at once: as `from` may alias
/// what is stored, a load after a store would wait for the loads that the stored value needs.
template <int kHeld, int kLanes = kWarp>
class LaneValues {
 public:
  /// Without `from` there are no values.
  __device__ LaneValues(const float* from, std::int64_t cols) : from_(from) {
    if (kHeld == 0 || from == nullptr) return;
    each_column<kHeld, kLanes>(cols, [&](int i, std::int64_t c) { held_[i] = from[c]; });
  }
  __device__ float operator()(int i, std::int64_t c) const {
    return kHeld > 0 ? held_[i] : from_[c];
  }

 private:
  const float* from_;
  float held_[kHeld > 0 ? kHeld : 1] = {};
};

#endif

}  // namespace heliograph::cuda
