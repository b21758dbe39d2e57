#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace heliograph {

/// mine[i] = the sum over ranks of their values, from rank 0 on. `others` holds the values of all
/// ranks but `rank` in order, `stride` values apart.
template <class T>
void sum_in_rank_order(std::span<T> mine, const T* others, std::size_t stride, int rank,
                       int ranks) {
  std::array<T, 256> sum;
  for (std::size_t begin = 0; begin < mine.size(); begin += sum.size()) {
    const std::size_t count = std::min(sum.size(), mine.size() - begin);
    const T* other = others + begin;
    for (int r = 0; r < ranks; ++r) {
      const T* values = mine.data() + begin;
      if (r != rank) {
        values = other;
        other += stride;
      }
      if (r == 0) {
        std::copy_n(values, count, sum.begin());
      } else {
        for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
      }
    }
    std::copy_n(sum.begin(), count, mine.data() + begin);
  }
}

}  // namespace heliograph
