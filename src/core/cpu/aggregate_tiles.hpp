#pragma once

#include <algorithm>
#include <cstdint>

#include "core/csr.hpp"
#include "core/thread_pool.hpp"

namespace heliograph::cpu {

/// Of the rows that a block gathers from, and of the sums that wait for the next block: both stay
/// in a second-level cache of 1 MiB.
inline constexpr std::int64_t kBlockBytes = std::int64_t{256} << 10;
/// Columns that are taken at a time (fewer on narrow vectors), and rows of a block of so many.
inline constexpr std::int64_t kBlockColumns = 128;
inline constexpr std::int64_t kBlockRows = kBlockBytes / (4 * kBlockColumns);

/// Is it worth gathering from blocks of rows that stay in a second-level cache? Where the gathered
/// matrix does not fit there itself and an output row finds several entries in each block.
inline bool blocks_pay(const CsrView& csr, std::int64_t sources, std::int64_t cols) {
  constexpr std::int64_t kEntries = 8;
  constexpr std::int64_t kFewColumns = 64;
  if (csr.rows <= 0 || cols < kFewColumns) return false;
  const std::int64_t row = std::min(cols, kBlockColumns);
  const std::int64_t blocks = sources * row / (kBlockRows * kBlockColumns);
  return blocks > 3 && csr.offsets[csr.rows] - csr.offsets[0] >= kEntries * blocks * csr.rows;
}

/// Cuts the rows of `csr` into tiles of about equal work (entries + rows) and runs body(begin,
/// end) on each. Tiles depend on the structure, `cols` and `in_blocks` only, never on the threads.
template <class Body>
void for_tiles(const CsrView& csr, std::int64_t cols, bool in_blocks, ThreadPool& threads,
               const Body& body) {
  if (csr.rows <= 0) return;
  const auto work_before = [&](std::int64_t row) {
    return csr.offsets[row] - csr.offsets[0] + row;
  };
  const std::int64_t work = work_before(csr.rows);
  // A tile in blocks has as many rows as sums wait for, if its rows are like the others.
  const std::int64_t grain =
      in_blocks
          ? 512 * (work / csr.rows)
          : std::max<std::int64_t>(512, (std::int64_t{1} << 19) / std::max<std::int64_t>(1, cols));
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
