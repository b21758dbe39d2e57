#pragma once

#include "core/cuda/launch.hpp"
#include "core/kernels.hpp"
#include "core/noise.hpp"

// Dropout in device code.

namespace heliograph::cuda {

/// Dropout (core/kernels.hpp) as an argument of CUDA kernels.
struct KeepMask {
  std::uint32_t threshold = 0;  ///< 0 keeps every value.
  float scale = 1;
  std::uint64_t stream = 0;
  const std::int64_t* global_ids = nullptr;
};

inline KeepMask keep_mask(const Dropout& dropout) {
  return {dropout.threshold, dropout.scale(), dropout.stream, dropout.global_ids};
}

#if defined(__CUDACC__)

/// The key of a row for keep_factor().
__device__ inline std::uint64_t keep_key(const KeepMask& mask, std::int64_t row) {
  if (mask.threshold == 0) return 0;
  return row_key(mask.stream, static_cast<std::uint64_t>(mask.global_ids[row]));
}

/// The factor of the value in column `col`: 0 if it is dropped, else the mask's scale.
__device__ inline float keep_factor(const KeepMask& mask, std::uint64_t key, std::int64_t col) {
  return noise16(key, static_cast<std::uint32_t>(col)) >= mask.threshold ? mask.scale : 0.0F;
}

#endif

}  // namespace heliograph::cuda
