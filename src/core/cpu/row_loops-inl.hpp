// Loops over the columns of a row that several files share, compiled for each Highway target.

// clang-format off
#if defined(HELIOGRAPH_ROW_LOOPS) == defined(HWY_TARGET_TOGGLE)
#ifdef HELIOGRAPH_ROW_LOOPS
#undef HELIOGRAPH_ROW_LOOPS
#else
#define HELIOGRAPH_ROW_LOOPS
#endif
// clang-format on

#include <hwy/highway.h>

#include "core/kernels.hpp"
#include "core/noise.hpp"

HWY_BEFORE_NAMESPACE();
namespace heliograph::cpu {
namespace HWY_NAMESPACE {

// A sum over a row is kept in kLanes partial sums, so that it vectorises without reassociation and
// has the same bits on every target.
constexpr int kLanes = 16;

template <class T, class Value>
HWY_INLINE T lane_sum(std::int64_t n, Value value) {
  T lanes[kLanes] = {};
  std::int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    for (int i = 0; i < kLanes; ++i) lanes[i] += value(c + i);
  }
  for (int i = 0; c + i < n; ++i) lanes[i] += value(c + i);
  T sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += lanes[i];
  return sum;
}

constexpr std::int64_t kNoiseGroup = 32;  // columns that share noise words

HWY_INLINE void keep_factors(std::uint64_t key, std::int64_t group, std::uint32_t threshold,
                             float scale, float* factor) {
  const auto first = static_cast<std::uint32_t>(group) * 16U;
  for (std::uint32_t i = 0; i < 16; ++i) {
    const std::uint32_t word = noise_word(key, first + i);
    factor[i] = (word & 0xffffU) >= threshold ? scale : 0.0F;
    factor[i + 16] = (word >> 16) >= threshold ? scale : 0.0F;
  }
}

/// to[c] = from[c] * keep factor of column c. Inlined, so that the compiler sees that `from` and
/// `to` are the same row or disjoint; otherwise it would not vectorise the loop.
HWY_INLINE void drop_row(const Dropout& dropout, std::int64_t row, const float* from, float* to,
                         std::int64_t cols) {
  const std::uint64_t key =
      row_key(dropout.stream, static_cast<std::uint64_t>(dropout.global_ids[row]));
  const float scale = dropout.scale();
  float factor[kNoiseGroup];
  for (std::int64_t c = 0; c < cols; c += kNoiseGroup) {
    keep_factors(key, c / kNoiseGroup, dropout.threshold, scale, factor);
    const std::int64_t n = cols - c < kNoiseGroup ? cols - c : kNoiseGroup;
    if (n == kNoiseGroup) {
      for (std::int64_t i = 0; i < kNoiseGroup; ++i) to[c + i] = from[c + i] * factor[i];
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[c + i] = from[c + i] * factor[i];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heliograph::cpu
HWY_AFTER_NAMESPACE();

#endif
