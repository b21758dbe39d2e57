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

  /// Rows [begin, end) with the entries [first, last).
  struct Tile {
    std::int64_t begin, end, first, last;
  };
  /// Tile t with its share of long rows, which have more entries than a tile has work and go on in
  /// the tiles after that of their beginning. They are cut every so many of their own entries, so
  /// the order of their sums does not depend on other rows. If the tile begins in such a row, that
  /// is its first row, and `first` is not the row's first entry.
  Tile part(std::int64_t t) const {
    Tile tile{begin(t), begin(t + 1), 0, 0};
    tile.first = entry_at(tile.begin, t);
    tile.last = entry_at(tile.end, t + 1);
    if (tile.first < csr_.offsets[tile.begin]) --tile.begin;
    return tile;
  }
  /// Calls body(tile, row) for each tile that begins in a long row, in the order of tiles.
  template <class Body>
  void for_continued(const Body& body) const {
    for (std::int64_t row = 0; row < csr_.rows; ++row) {
      if (!is_long(row)) continue;
      for (std::int64_t t = work_before(row) / grain_ + 1; cut(row, t) < entries(row); ++t) {
        body(t, row);
      }
    }
  }
  /// At least the rows and the entries of every part.
  std::int64_t most_work() const {
    return csr_.rows <= 0 ? 0 : std::min(2 * grain_ + 2, work_before(csr_.rows));
  }

 private:
  std::int64_t work_before(std::int64_t row) const {
    return csr_.offsets[row] - csr_.offsets[0] + row;
  }
  std::int64_t entries(std::int64_t row) const { return csr_.offsets[row + 1] - csr_.offsets[row]; }
  bool is_long(std::int64_t row) const { return entries(row) > grain_; }
  /// The entry of a long row at which tile t begins, possibly behind its last.
  std::int64_t cut(std::int64_t row, std::int64_t t) const {
    return (t - work_before(row) / grain_) * grain_;
  }
  /// The entry at which tile t begins; `row` is begin(t).
  std::int64_t entry_at(std::int64_t row, std::int64_t t) const {
    if (row == 0 || !is_long(row - 1)) return csr_.offsets[row];
    return std::min(csr_.offsets[row], csr_.offsets[row - 1] + cut(row - 1, t));
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
