#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.hpp"
#include "core/device.hpp"
#include "core/placed.hpp"
#include "quant/kept_row.hpp"

namespace heliograph {

/// Which columns of a list of packed rows a dropout mask keeps, in each of the last `epochs`
/// epochs, and how many bits their codes have. Both ends of a message know both, so only these bits
/// travel (docs/wire_format.md); without the others rows follow each other without padding and
/// differ in length. Used by the rank's own thread. On a CUDA device all work is in the order of
/// its queue.
class KeptColumns {
 public:
  /// `nodes`: the node of each row, which keys its mask. `starts`: ascending row numbers whose
  /// `offset` is asked for; the first is 0 and the last the number of rows. `format` has one group
  /// and no exact columns. `drops`: whether the threshold of draws is not 0; if it is, rows of the
  /// same bits share a mask. `device` must outlive the object; `account` counts memory on it.
  KeptColumns(std::vector<std::int64_t> nodes, std::vector<std::int64_t> starts, std::int64_t cols,
              RowFormat format, bool drops, int epochs, Device& device, MemoryUse use,
              MemoryAccount* account);
  KeptColumns(const KeptColumns&) = delete;
  KeptColumns& operator=(const KeptColumns&) = delete;

  const RowFormat& format() const { return m_.format; }

  /// Gives each row's codes the lowest `bits[row]` bits of the format, from the next `draw` on.
  void set_bits(std::span<const std::uint8_t> bits);

  /// Draws the masks of an epoch: a column is dropped if its noise16() with the row's key in
  /// `stream`, a stream_key(), is below `threshold`.
  void draw(std::int64_t epoch, std::uint32_t threshold, std::uint64_t stream);

  /// The bytes that rows before `start`, one of `starts`, take without the columns that are dropped
  /// in the epoch. On a CUDA device the queue must have finished `draw`.
  std::size_t offset(std::int64_t epoch, std::int64_t start) const;

  /// Copies the kept columns of rows [begin, end), two of `starts`. `packed` and `out` hold all
  /// rows.
  void compress(std::int64_t epoch, std::int64_t begin, std::int64_t end, const std::byte* packed,
                std::byte* out) const;
  /// Makes all packed rows of `kept`, which `compress` has written; dropped columns get code 0, or
  /// value 0. 64 bytes past the end of `kept` are readable.
  void expand(std::int64_t epoch, const std::byte* kept, std::byte* packed) const;

 private:
  std::size_t slot(std::int64_t epoch) const {
    return static_cast<std::size_t>(epoch) % static_cast<std::size_t>(epochs_);
  }
  ColumnMasks masks_of(std::int64_t epoch) const;

  std::vector<std::int64_t> nodes_, starts_;
  int epochs_;
  Device& device_;
  MemoryUse use_;
  MemoryAccount* account_;
  CountedBytes node_bytes_;
  Placed<std::int64_t> placed_nodes_, placed_starts_;
  MemoryAccount page_locked_;
  Buffer masks_, offsets_;
  Buffer bits_;  ///< Empty until `set_bits`.
  /// Whether a slot's offsets are those of the present bits. Used only if all columns are kept.
  std::vector<bool> drawn_;
  Buffer start_offsets_;  ///< On a CUDA device: the offsets of `starts`, in page-locked memory.
  ColumnMasks m_;
};

// The same without threads on the CPU, and on a CUDA device: for rows [begin, end), or for the
// first `rows`. The CPU leaves it to the caller to add up the bytes of rows.

void draw_columns(const ColumnMasks& m, std::uint32_t threshold, std::uint64_t stream,
                  std::int64_t begin, std::int64_t end);
void compress_columns(const ColumnMasks& m, const std::byte* packed, std::byte* out,
                      std::int64_t begin, std::int64_t end);
void expand_columns(const ColumnMasks& m, const std::byte* kept, std::byte* packed,
                    std::int64_t begin, std::int64_t end);

namespace cuda {

/// Also adds up the offsets, and copies those of `count` starts to `start_offsets`.
void draw_columns(Queue& queue, const ColumnMasks& m, std::uint32_t threshold, std::uint64_t stream,
                  std::int64_t rows, const std::int64_t* starts, std::int64_t count,
                  std::int64_t* start_offsets);
void compress_columns(Queue& queue, const ColumnMasks& m, const std::byte* packed, std::byte* out,
                      std::int64_t begin, std::int64_t end);
void expand_columns(Queue& queue, const ColumnMasks& m, const std::byte* kept, std::byte* packed,
                    std::int64_t rows);

}  // namespace cuda

}  // namespace heliograph
