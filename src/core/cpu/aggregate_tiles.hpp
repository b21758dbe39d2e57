#pragma once

#include <algorithm>
#include <cstdint>

#include "core/csr.hpp"
#include "core/thread_pool.hpp"

namespace heliograph::cpu {

/// Cuts the rows of `csr` into tiles of about equal work (entries + rows), which depend only on the
/// structure and `cols`.
class RowTiles {
 public:
  RowTiles(const CsrView& csr, std::int64_t cols)
      : csr_(csr),
        grain_(std::max<std::int64_t>(512,
                                      (std::int64_t{1} << 19) / std::max<std::int64_t>(1, cols))) {}

  std::int64_t count() const {
    return csr_.rows <= 0 ? 0 : (work_before(csr_.rows) + grain_ - 1) / grain_;
  }
  /// The first row of a tile; that of tile count() is the number of rows.
  std::int64_t begin(std::int64_t tile) const {
    std::int64_t low = 0;
    std::int64_t high = csr_.rows;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (work_before(middle) < tile * grain_) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /// At least the work of every tile. Only its last row takes a tile beyond the grain.
  std::int64_t most_work() const {
    if (csr_.rows <= 0) return 0;
    std::int64_t longest = 0;
    for (std::int64_t row = 0; row < csr_.rows; ++row) {
      longest = std::max(longest, csr_.offsets[row + 1] - csr_.offsets[row]);
    }
    return std::min(grain_ + longest + 1, work_before(csr_.rows));
  }

 private:
  std::int64_t work_before(std::int64_t row) const {
    return csr_.offsets[row] - csr_.offsets[0] + row;
  }

  const CsrView& csr_;
  std::int64_t grain_;
};

/// Runs body(begin, end) on each of the RowTiles.
template <class Body>
void for_tiles(const CsrView& csr, std::int64_t cols, ThreadPool& threads, const Body& body) {
  const RowTiles tiles(csr, cols);
  threads.run(tiles.count(), [&](std::int64_t tile) {
    const std::int64_t begin = tiles.begin(tile);
    const std::int64_t end = tiles.begin(tile + 1);
    if (begin < end) body(begin, end);
  });
}

}  // namespace heliograph::cpu
