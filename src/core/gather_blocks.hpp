#pragma once

#include <algorithm>
#include <cstdint>

#include "core/buffer.hpp"
#include "core/csr.hpp"
#include "core/thread_pool.hpp"

namespace heliograph {

/// The entries of a sparse matrix in the order in which aggregation gathers fastest where rows have
/// many of them: by tiles of output rows and, in each tile, by blocks of gathered rows, so that a
/// block is fetched into a second-level cache once for all rows of a tile. Columns are kept as 16
/// bits from their block's first. A row's entries stay in their order, and so do its sums.
/// At most 4 bytes an entry, beside the matrix. Immutable; read by any number of threads.
class GatherBlocks {
 public:
  /// 128 columns of these rows and of the sums of a tile fill three quarters of 1 MiB.
  static constexpr std::int64_t kBlockRows = 1024;
  static constexpr std::int64_t kTileRows = 512;
  /// A narrower matrix fits a second-level cache, or nearly, as it is.
  static constexpr std::int64_t kFewestColumns = 33;

  GatherBlocks() = default;
  /// Empty where it would not pay: few entries of a row in a block, few or very many blocks; and
  /// where a row's columns descend. `sources`: rows that entries point to, their number at most.
  GatherBlocks(const CsrView& csr, std::int64_t sources, ThreadPool& threads, MemoryUse use,
               MemoryAccount* account);

  bool empty() const { return tile_rows_ == 0; }
  /// Whether aggregating `cols` columns should follow them.
  bool serve(std::int64_t cols) const { return !empty() && cols >= kFewestColumns; }

  std::int64_t rows() const { return rows_; }
  std::int64_t sources() const { return sources_; }
  std::int64_t tiles() const { return (rows_ + tile_rows_ - 1) / tile_rows_; }
  std::int64_t tile_begin(std::int64_t tile) const { return tile * tile_rows_; }
  std::int64_t tile_end(std::int64_t tile) const {
    return std::min(rows_, (tile + 1) * tile_rows_);
  }
  /// Of a tile: entries of each row in the first block, in the second, ...
  const std::uint16_t* counts(std::int64_t tile) const {
    return counts_.as<std::uint16_t>().data() + tile_begin(tile) * blocks();
  }
  /// The columns of these entries, one after the other; some may be read behind the last.
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
