#pragma once

#include <algorithm>
#include <cstdint>

#include "core/csr.hpp"
#include "core/thread_pool.hpp"

namespace heliograph::cpu {

/// Cuts the rows of `csr` into tiles of about equal work (entries + rows) and runs body(begin,
/// end) on each. Tiles depend only on the structure and `cols`, not on the number of threads.
template <class Body>
void for_tiles(const CsrView& csr, std::int64_t cols, ThreadPool& threads, const Body& body) {
  if (csr.rows <= 0) return;
  const auto work_before = [&](std::int64_t row) {
    return csr.offsets[row] - csr.offsets[0] + row;
  };
  const std::int64_t work = work_before(csr.rows);
  const std::int64_t grain =
      std::max<std::int64_t>(512, (std::int64_t{1} << 19) / std::max<std::int64_t>(1, cols));
  const std::int64_t tiles = (work + grain - 1) / grain;
  const auto first_row = [&](std::int64_t tile) {
    std::int64_t low = 0;
    std::int64_t high = csr.rows;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (work_before(middle) < tile * grain) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  };
  threads.run(tiles, [&](std::int64_t tile) {
    const std::int64_t begin = first_row(tile);
    const std::int64_t end = first_row(tile + 1);
    if (begin < end) body(begin, end);
  });
}

}  // namespace heliograph::cpu
