#pragma once

#include "core/cuda/launch.hpp"
#include "core/kernels.hpp"
#include "core/noise.hpp"

// Dropout as kernels take it, by value; for device sources.

namespace heliograph::cuda {

struct KeepMask {
  std::uint32_t threshold = 0;  ///< 0: everything is kept.
  float scale = 1;
  std::uint64_t stream = 0;
  const std::int64_t* global_ids = nullptr;
};

inline KeepMask keep_mask(const Dropout& dropout) {
  return {dropout.threshold, dropout.scale(), dropout.stream, dropout.global_ids};
}

#if defined(__CUDACC__)

/// Key of a row, for keep_factor.
__device__ inline std::uint64_t keep_key(const KeepMask& mask, std::int64_t row) {
  if (mask.threshold == 0) return 0;
  return row_key(mask.stream, static_cast<std::uint64_t>(mask.global_ids[row]));
}

/// 0, or what a kept value of this column is multiplied by.
__device__ inline float keep_factor(const KeepMask& mask, std::uint64_t key, std::int64_t col) {
  return noise16(key, static_cast<std::uint32_t>(col)) >= mask.threshold ? mask.scale : 0.0F;
}

#endif

}  // namespace heliograph::cuda
