// Sums neighbour rows in registers, either all entries of an output row in turn, so that it is
// written once, or block by block of GatherBlocks. Compiled once for each Highway target.

// clang-format off
#if defined(HELIOGRAPH_SUM_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HELIOGRAPH_SUM_ROWS_INL
#undef HELIOGRAPH_SUM_ROWS_INL
#else
#define HELIOGRAPH_SUM_ROWS_INL
#endif
// clang-format on

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "core/cpu/accumulators.hpp"
#include "core/cpu/packed_lanes-inl.hpp"
#include "core/csr.hpp"
#include "core/gather_blocks.hpp"

HWY_BEFORE_NAMESPACE();
namespace heliograph::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Accumulators of one block; the other registers hold constants and the current row.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kBlock = 16;
#else
constexpr int kBlock = 8;
#endif

// Bytes between the prefetch of a row of values and its use: half a first-level cache of 32 KiB,
// which covers the latency of memory.
constexpr std::int64_t kBytesAhead = 16384;

/// Entries [begin, end) of one output row. Prefetches run ahead into later rows, up to tile_end.
struct Entries {
  const std::int32_t* columns;
  std::int64_t begin;
  std::int64_t end;
  std::int64_t tile_end;
};

/// Columns from `column` to the last of kVectors vectors, which may overlap the one before it.
template <int kVectors, class Rows>
HWY_INLINE std::int64_t LastVector(const Rows& rows, std::int64_t column) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(typename Rows::Tag()));
  const std::int64_t whole = (kVectors - 1) * lanes;
  return Rows::kOverlap ? std::min(whole, rows.cols() - lanes - column) : whole;
}

/// Computes kVectors vectors of columns of output row i, from `column` on.
template <int kVectors, class Rows>
HWY_INLINE void SumBlock(const Rows& rows, std::int64_t i, const Entries& entries,
                         std::int64_t column) {
  const typename Rows::Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t last = LastVector<kVectors>(rows, column);
#define HELIOGRAPH_AT(k) ((k) == kVectors - 1 ? last : (k)*lanes)
  HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_ZERO)
#define HELIOGRAPH_ADD(k) \
  if constexpr ((k) < kVectors) sum##k = rows.Add(d, row, HELIOGRAPH_AT(k), weight, sum##k);
#define HELIOGRAPH_WEIGH(k) \
  if constexpr ((k) < kVectors) sum##k = hn::Mul(hn::Set(d, rows.self), sum##k);
  float* target = rows.Out(i, column);
  if (!Rows::kOverlap) {  // the output, which is read only after the last entry
    for (int k = 0; k < kVectors; ++k) hwy::Prefetch(target + HELIOGRAPH_AT(k));
  }
  float minimum = 0;
  if (rows.self != 0) {
    const auto* row = rows.Row(i, column);
    const auto weight = rows.Weight(d, i);
    HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_ADD)
    HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_WEIGH)
  }
  const std::int64_t bytes = rows.PrefetchBytes(kVectors * lanes);
  const std::int64_t ahead = std::clamp<std::int64_t>(kBytesAhead / bytes, 8, 64);
  for (std::int64_t e = entries.begin; e < entries.end; ++e) {
    const std::int64_t later = std::min(e + ahead, entries.tile_end - 1);
    const auto* line =
        reinterpret_cast<const char*>(rows.PrefetchBegin(entries.columns[later], column));
    for (std::int64_t b = 0; b < bytes; b += 64) hwy::Prefetch(line + b);
    if (!Rows::kOverlap) hwy::Prefetch(line + bytes - 1);  // rows that straddle lines
    const std::int64_t j = entries.columns[e];
    const auto* row = rows.Row(j, column);
    const auto weight = rows.EntryWeight(d, j, e);
    minimum += rows.Minimum(j, e);
    HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_ADD)
  }
  const float scale = rows.row_scale == nullptr ? 1.0F : rows.row_scale[i];
  const std::int64_t left = rows.cols() - column;
#define HELIOGRAPH_STORE(k)                                                             \
  if constexpr ((k) < kVectors) {                                                       \
    rows.Store(d, sum##k, minimum, scale, target + HELIOGRAPH_AT(k), left - (k)*lanes); \
  }                                                                                     \
  (void)sum##k;
  HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_STORE)
}

/// Computes the columns of output row i from `column` on, in blocks of up to kMost vectors.
template <int kMost, class Rows>
HWY_INLINE void SumRow(const Rows& rows, std::int64_t i, const Entries& entries,
                       std::int64_t column) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(typename Rows::Tag()));
  std::int64_t vectors = (rows.cols() - column + lanes - 1) / lanes;
  for (; vectors >= kMost; vectors -= kMost, column += kMost * lanes) {
    SumBlock<kMost>(rows, i, entries, column);
  }
  if constexpr (kMost > 8) {
    if (vectors >= 8) {
      SumBlock<8>(rows, i, entries, column);
      vectors -= 8;
      column += 8 * lanes;
    }
  }
#define HELIOGRAPH_REST(k)                                              \
  case k:                                                               \
    if constexpr ((k) < kMost) SumBlock<(k)>(rows, i, entries, column); \
    break;
  switch (vectors) {
    HELIOGRAPH_REST(1)
    HELIOGRAPH_REST(2)
    HELIOGRAPH_REST(3)
    HELIOGRAPH_REST(4)
    HELIOGRAPH_REST(5)
    HELIOGRAPH_REST(6)
    HELIOGRAPH_REST(7)
    default:
      break;
  }
}

template <int kMost, class Rows>
void SumRows(const Rows& rows, const CsrView& csr, std::int64_t begin, std::int64_t end,
             std::int64_t column = 0) {
  for (std::int64_t i = begin; i < end; ++i) {
    const Entries entries{csr.columns, csr.offsets[i], csr.offsets[i + 1], csr.offsets[end]};
    if (rows.skips_empty_rows() && entries.begin == entries.end) continue;
    SumRow<kMost>(rows, i, entries, column);
  }
}

/// Computes kVectors vectors of columns, from `column` on, of the output rows of one tile of
/// csr.blocks, with the bits of SumBlock.
template <int kVectors, class Rows>
void SumTile(const Rows& rows, const CsrView& csr, std::int64_t tile, std::int64_t column) {
  const typename Rows::Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const GatherBlocks& blocks = *csr.blocks;
  const std::int64_t last = LastVector<kVectors>(rows, column);
  const std::int64_t bytes = rows.PrefetchBytes(kVectors * lanes);
  // Prefetches from the second-level cache pay only for long rows.
  constexpr std::int64_t kEntriesAhead = 8;
  const bool ahead = bytes >= 256;
  // Sums of the tile's rows between blocks; has room for vectors of up to 64 bytes.
  HWY_ALIGN float waiting[GatherBlocks::kTileRows * kVectors * 16];
  const std::uint16_t* count = blocks.counts(tile);
  const std::uint16_t* entry = blocks.columns(tile, csr);
  for (std::int64_t b = 0; b < blocks.blocks(); ++b) {
    const bool is_first = b == 0;
    const bool is_last = b + 1 == blocks.blocks();
    const std::int64_t first_row = b * GatherBlocks::kBlockRows;
    float* sums = waiting;
    for (std::int64_t i = blocks.tile_begin(tile); i < blocks.tile_end(tile);
         ++i, sums += kVectors * lanes) {
      const std::uint16_t* const end = entry + *count++;
      if (entry == end && !is_first && !is_last) continue;
      HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_ZERO)
      if (!is_first) {
#define HELIOGRAPH_TAKE_UP(k) \
  if constexpr ((k) < kVectors) sum##k = hn::Load(d, sums + (k)*lanes);
        HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_TAKE_UP)
      } else if (rows.self != 0) {
        const auto* row = rows.Row(i, column);
        const auto weight = rows.Weight(d, i);
        HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_ADD)
        HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_WEIGH)
      }
      for (; entry < end; ++entry) {
        if (ahead) {
          const auto* line = reinterpret_cast<const char*>(
              rows.PrefetchBegin(first_row + entry[kEntriesAhead], column));
          for (std::int64_t byte = 0; byte < bytes; byte += 64) hwy::Prefetch(line + byte);
        }
        const std::int64_t j = first_row + *entry;
        const auto* row = rows.Row(j, column);
        const auto weight = rows.Weight(d, j);
        HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_ADD)
      }
      if (!is_last) {
#define HELIOGRAPH_LEAVE(k) \
  if constexpr ((k) < kVectors) hn::Store(sum##k, d, sums + (k)*lanes);
        HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_LEAVE)
      } else if (!rows.skips_empty_rows() || csr.offsets[i] < csr.offsets[i + 1]) {
        constexpr float minimum = 0;  // only codes have minima, and they are not gathered in blocks
        float* target = rows.Out(i, column);
        const float scale = rows.row_scale == nullptr ? 1.0F : rows.row_scale[i];
        const std::int64_t left = rows.cols() - column;
        HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_STORE)
      }
    }
  }
}

/// Computes all columns, at least two vectors, of the output rows of one tile.
template <class Rows>
void SumTileColumns(const Rows& rows, const CsrView& csr, std::int64_t tile) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(typename Rows::Tag()));
  std::int64_t column = 0;
  std::int64_t vectors = (rows.cols() + lanes - 1) / lanes;
  for (; vectors >= 8; vectors -= 8, column += 8 * lanes) SumTile<8>(rows, csr, tile, column);
  if (vectors >= 4) {
    SumTile<4>(rows, csr, tile, column);
    vectors -= 4;
    column += 4 * lanes;
  }
  if (vectors == 3) SumTile<3>(rows, csr, tile, column);
  if (vectors == 2) SumTile<2>(rows, csr, tile, column);
  if (vectors == 1) SumTile<1>(rows, csr, tile, column);
}

#undef HELIOGRAPH_AT
#undef HELIOGRAPH_ADD
#undef HELIOGRAPH_WEIGH
#undef HELIOGRAPH_STORE
#undef HELIOGRAPH_TAKE_UP
#undef HELIOGRAPH_LEAVE
#undef HELIOGRAPH_REST

}  // namespace heliograph::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
