#pragma once

#include <algorithm>
#include <cstdint>

#include "core/buffer.hpp"
#include "core/csr.hpp"
#include "core/thread_pool.hpp"

namespace heliograph {

/// The entries of a sparse matrix with many entries a row, ordered for cache reuse in aggregation:
/// by tiles of output rows and, within a tile, by blocks of gathered rows, so that a block enters
/// the second-level cache once for all rows of the tile. Columns are 16-bit offsets into their
/// block. A row's entries keep their order, so its sums keep their bits. Takes at most 4 bytes an
/// entry. Immutable; any number of threads may read it.
class GatherBlocks {
 public:
  /// Gathered rows of a block and output rows of a tile: 128 fp32 columns of both are 768 KiB.
  static constexpr std::int64_t kBlockRows = 1024;
  static constexpr std::int64_t kTileRows = 512;
  /// Fewest columns for which blocks pay: a narrower matrix nearly fits a second-level cache.
  static constexpr std::int64_t kFewestColumns = 33;

  GatherBlocks() = default;
  /// Orders the entries of `csr`, whose columns are below `sources`. Empty if blocks would not pay
  /// (few entries of a row in a block, few or very many blocks), if a row's columns descend, or if
  /// entries have values.
  GatherBlocks(const CsrView& csr, std::int64_t sources, ThreadPool& threads, MemoryUse use,
               MemoryAccount* account);

  bool empty() const { return tile_rows_ == 0; }
  /// Whether aggregation of `cols` columns should use these blocks.
  bool serve(std::int64_t cols) const { return !empty() && cols >= kFewestColumns; }

  std::int64_t rows() const { return rows_; }
  std::int64_t sources() const { return sources_; }
  std::int64_t tiles() const { return (rows_ + tile_rows_ - 1) / tile_rows_; }
  std::int64_t tile_begin(std::int64_t tile) const { return tile * tile_rows_; }
  std::int64_t tile_end(std::int64_t tile) const {
    return std::min(rows_, (tile + 1) * tile_rows_);
  }
  /// Entry counts of a tile: for block after block, the entries of each row of the tile in it.
  const std::uint16_t* counts(std::int64_t tile) const {
    return counts_.as<std::uint16_t>().data() + tile_begin(tile) * blocks();
  }
  /// Columns of a tile's entries in the order of `counts`; readable a little past the last one.
  const std::uint16_t* columns(std::int64_t tile, const CsrView& csr) const {
    return columns_.as<std::uint16_t>().data() + csr.offsets[tile_begin(tile)];
  }
  std::int64_t blocks() const { return (sources_ + kBlockRows - 1) / kBlockRows; }

 private:
  std::int64_t rows_ = 0;
  std::int64_t sources_ = 0;
  std::int64_t tile_rows_ = 0;
  Buffer counts_, columns_;
};

}  // namespace heliograph
