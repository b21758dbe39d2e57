#include "core/gather_blocks.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

namespace heliograph {
namespace {

/// Fewest entries of a row in a block that pay for loading and storing the row's sums.
constexpr std::int64_t kEntriesAVisit = 4;

std::int64_t block_of(std::int32_t column) { return column / GatherBlocks::kBlockRows; }

/// Whether rows have enough entries in each block they visit, with ascending columns, and no more
/// than a 16-bit count can hold.
bool visits_pay(const CsrView& csr, ThreadPool& threads) {
  std::atomic<bool> fits{true};
  std::atomic<std::int64_t> visits{0};
  threads.for_ranges(csr.rows, 4096, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t sum = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      std::int32_t before = 0;
      std::int64_t block = -1;
      std::int64_t first = 0;
      for (std::int64_t e = csr.offsets[i]; e < csr.offsets[i + 1]; ++e) {
        const std::int32_t column = csr.columns[e];
        if (block_of(column) != block) {
          block = block_of(column);
          first = e;
          ++sum;
        }
        if (column < before || e - first == std::numeric_limits<std::uint16_t>::max()) fits = false;
        before = column;
      }
    }
    visits += sum;
  });
  return fits && csr.offsets[csr.rows] - csr.offsets[0] >= kEntriesAVisit * visits;
}

}  // namespace

GatherBlocks::GatherBlocks(const CsrView& csr, std::int64_t sources, ThreadPool& threads,
                           MemoryUse use, MemoryAccount* account) {
  if (csr.values != nullptr) return;
  // More counts than entries would cost more than they save.
  const std::int64_t counts = csr.rows * ((sources + kBlockRows - 1) / kBlockRows);
  if (csr.rows == 0 || sources <= 3 * kBlockRows || counts > csr.offsets[csr.rows]) return;
  if (!visits_pay(csr, threads)) return;
  rows_ = csr.rows;
  sources_ = sources;
  // Several tiles for each thread, since some have more entries than others.
  tile_rows_ = std::clamp<std::int64_t>(rows_ / (8 * threads.threads()), 64, kTileRows);
  const auto entries = static_cast<std::size_t>(csr.offsets[csr.rows]);
  counts_ = Buffer(static_cast<std::size_t>(counts) * sizeof(std::uint16_t), use, account);
  columns_ = Buffer(entries * sizeof(std::uint16_t), use, account);
  threads.run(tiles(), [&](std::int64_t tile) {
    const std::int64_t begin = tile_begin(tile), end = tile_end(tile);
    std::int64_t cursors[kTileRows];
    std::copy(csr.offsets + begin, csr.offsets + end, cursors);
    auto* count = counts_.as<std::uint16_t>().data() + begin * blocks();
    auto* to = columns_.as<std::uint16_t>().data() + csr.offsets[begin];
    for (std::int64_t block = 0; block < blocks(); ++block) {
      const std::int64_t first = block * kBlockRows;
      for (std::int64_t i = begin; i < end; ++i) {
        std::int64_t& e = cursors[i - begin];
        const auto* const before = to;
        for (; e < csr.offsets[i + 1] && csr.columns[e] < first + kBlockRows; ++e) {
          *to++ = static_cast<std::uint16_t>(csr.columns[e] - first);
        }
        *count++ = static_cast<std::uint16_t>(to - before);
      }
    }
  });
}

}  // namespace heliograph
