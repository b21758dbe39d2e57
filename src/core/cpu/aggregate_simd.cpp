// One output row at a time: blocks of columns are summed in registers over all entries of the
// row, so that an output value is written once. Compiled once for each Highway target.

#include "core/cpu/aggregate_rows.hpp"
#include "core/cpu/aggregate_tiles.hpp"
#include "core/cpu/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/aggregate_simd.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>

#include "core/cpu/bf16_rows-inl.hpp"
#include "core/cpu/code_group-inl.hpp"
#include "core/cpu/neighbour_rows-inl.hpp"
#include "core/cpu/packed_lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heliograph::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using heliograph::HWY_NAMESPACE::CodeGroup;
using heliograph::HWY_NAMESPACE::ForCodeBlocks;

// Accumulators of one block; the rest of the registers hold constants and the row at hand.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kBlock = 16;
#else
constexpr int kBlock = 8;
#endif

// Bytes between the prefetch of a row of values and its use: at most half a first-level cache of
// 32 KiB, and enough of them in flight to cover the latency of memory.
constexpr std::int64_t kBytesAhead = 16384;

// Entries between the prefetch of a row of codes and its use.
constexpr std::int64_t kCodesAhead = 40;

// Vectors without a size known to the compiler cannot be array elements: they have names.
#define HELIOGRAPH_EACH_ACCUMULATOR(F) \
  F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)

/// Entries of one output row, and where the tile's entries end (prefetch goes on into the rows
/// that follow).
struct Entries {
  const std::int32_t* columns;
  std::int64_t begin;
  std::int64_t end;
  std::int64_t tile_end;
};

/// All entries of an output row are summed at once.
struct WholeRow {
  static constexpr bool kPart = false;
};

/// Some of them: sums are taken up from `sums`, unless these are the first, and left there, unless
/// these are the last.
struct PartOfRow {
  static constexpr bool kPart = true;
  float* sums;
  bool first;
  bool last;
};

/// Sums kVectors vectors of columns, from `column` on, of output row i.
template <int kVectors, class Rows, class Part = WholeRow>
HWY_INLINE void SumBlock(const Rows& rows, std::int64_t i, const Entries& entries,
                         std::int64_t column, const Part& part = {}) {
  const typename Rows::Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  // Distance of the last vector from the block's first column.
  const std::int64_t last = Rows::kOverlap
                                ? std::min((kVectors - 1) * lanes, rows.cols() - lanes - column)
                                : (kVectors - 1) * lanes;
#define HELIOGRAPH_AT(k) ((k) == kVectors - 1 ? last : (k)*lanes)
#define HELIOGRAPH_ZERO(k) auto sum##k = hn::Zero(d);
  HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_ZERO)
#define HELIOGRAPH_ADD(k) \
  if constexpr ((k) < kVectors) sum##k = rows.Add(d, row, HELIOGRAPH_AT(k), weight, sum##k);
  float* target = rows.Out(i, column);
  bool self = rows.self;
  if constexpr (Part::kPart) {
    self = self && part.first;
#define HELIOGRAPH_TAKE_UP(k) \
  if constexpr ((k) < kVectors) sum##k = hn::Load(d, part.sums + (k)*lanes);
    if (!part.first) {
      HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_TAKE_UP)
    }
  } else if (!Rows::kOverlap) {  // what is added to is read only after the last entry
    for (int k = 0; k < kVectors; ++k) hwy::Prefetch(target + HELIOGRAPH_AT(k));
  }
  float minimum = 0;
  if (self) {
    const auto* row = rows.Row(i, column);
    const auto weight = rows.Weight(d, i);
    HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_ADD)
  }
  const std::int64_t bytes = rows.PrefetchBytes(kVectors * lanes);
  const std::int64_t ahead = std::clamp<std::int64_t>(kBytesAhead / bytes, 8, 64);
  for (std::int64_t e = entries.begin; e < entries.end; ++e) {
    if constexpr (!Part::kPart) {
      const std::int64_t later = std::min(e + ahead, entries.tile_end - 1);
      const auto* line =
          reinterpret_cast<const char*>(rows.PrefetchBegin(entries.columns[later], column));
      for (std::int64_t b = 0; b < bytes; b += 64) hwy::Prefetch(line + b);
      if (!Rows::kOverlap) hwy::Prefetch(line + bytes - 1);  // rows that straddle lines
    }
    const std::int64_t j = entries.columns[e];
    const auto* row = rows.Row(j, column);
    const auto weight = rows.Weight(d, j);
    minimum += rows.Minimum(j);
    HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_ADD)
  }
  if constexpr (Part::kPart) {
#define HELIOGRAPH_LEAVE(k) \
  if constexpr ((k) < kVectors) hn::Store(sum##k, d, part.sums + (k)*lanes);
    if (!part.last) {
      HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_LEAVE)
      return;
    }
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

/// Sums the columns of output row i from `column` on.
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

/// kVectors vectors of columns of rows [begin, end), which are gathered from block by block, so
/// that each gathered row is fetched into the cache once for many output rows.
template <int kVectors, class Rows>
void SumColumnsInBlocks(const Rows& rows, const CsrView& csr, std::int64_t sources,
                        std::int64_t begin, std::int64_t end, std::int64_t column) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(typename Rows::Tag()));
  constexpr std::int64_t kMostRows = 2048;
  HWY_ALIGN float sums[kBlockBytes / 4];
  std::int64_t cursors[kMostRows];
  const std::int64_t block = std::min(kMostRows, kBlockBytes / (kVectors * lanes * 4));
  for (std::int64_t top = begin; top < end; top += block) {
    const std::int64_t bottom = std::min(end, top + block);
    std::copy(csr.offsets + top, csr.offsets + bottom, cursors);
    for (std::int64_t source = 0; source < sources; source += block) {
      const bool last = source + block >= sources;
      for (std::int64_t i = top; i < bottom; ++i) {
        std::int64_t& cursor = cursors[i - top];
        const std::int64_t row_end = csr.offsets[i + 1];
        Entries entries{csr.columns, cursor, cursor, row_end};
        while (entries.end < row_end && csr.columns[entries.end] < source + block) ++entries.end;
        if (last) entries.end = row_end;
        cursor = entries.end;
        if (rows.skips_empty_rows() && csr.offsets[i] == row_end) continue;
        if (source > 0 && !last && entries.begin == entries.end) continue;
        const PartOfRow part{sums + (i - top) * kVectors * lanes, source == 0, last};
        SumBlock<kVectors>(rows, i, entries, column, part);
      }
    }
  }
}

/// The same bits as SumRows, for rows of many entries. `sources`: rows that entries point to.
template <int kMost, class Rows>
void SumRowsInBlocks(const Rows& rows, const CsrView& csr, std::int64_t sources, std::int64_t begin,
                     std::int64_t end) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(typename Rows::Tag()));
  std::int64_t column = 0;
  for (; rows.cols() - column >= 8 * lanes; column += 8 * lanes) {
    SumColumnsInBlocks<8>(rows, csr, sources, begin, end, column);
  }
  if (rows.cols() - column >= 4 * lanes) {
    SumColumnsInBlocks<4>(rows, csr, sources, begin, end, column);
    column += 4 * lanes;
  }
  // A few columns of every row fit the cache, or nearly.
  if (column < rows.cols()) SumRows<kMost>(rows, csr, begin, end, column);
}

/// Sums `kVectors` vectors of one block of codes: those of lanes [lane, lane + N) from vector
/// kFirst of the block on.
template <int kBits, int kLaneBits, int kFirst, int kVectors>
HWY_INLINE void SumLanes(const HaloRows<kBits>& rows, std::int64_t i, const Entries& entries,
                         std::int64_t column, std::int64_t byte, std::int64_t lane) {
  using Group = CodeGroup<kBits, kLaneBits>;
  const FloatTag d;
  const std::int64_t begin = static_cast<std::int64_t>(rows.packed.format.parameter_bytes()) + byte;
  HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_ZERO)
  float* target = rows.Out(i, column + 16 * kFirst + lane);
  for (int k = 0; k < kVectors; ++k) hwy::Prefetch(target + 16 * k);  // read after the last entry
  float minimum = 0;
  for (std::int64_t e = entries.begin; e < entries.end; e += Group::kRows) {
    const std::byte* codes[Group::kRows];
    float steps[Group::kRows];
    for (int r = 0; r < Group::kRows; ++r) {
      const std::int64_t later = std::min(e + r + kCodesAhead, entries.tile_end - 1);
      const auto* line = reinterpret_cast<const char*>(rows.RowBegin(entries.columns[later]));
      hwy::Prefetch(line);
      hwy::Prefetch(line + begin + 2 * kLaneBits - 1);
      // Places behind the last entry repeat it with a step of 0.
      const bool real = e + r < entries.end;
      const std::int64_t j = entries.columns[real ? e + r : e];
      codes[r] = rows.RowBegin(j) + begin;
      steps[r] = real ? rows.Step(j) : 0.0F;
      if (real) minimum += rows.Minimum(j);
    }
    const Group group(codes, steps, static_cast<std::size_t>(lane));
#define HELIOGRAPH_ADD_CODES(k) \
  if constexpr ((k) < kVectors) sum##k = hn::Add(sum##k, group.template Term<kFirst + (k)>(d));
    HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_ADD_CODES)
  }
  const float scale = rows.row_scale == nullptr ? 1.0F : rows.row_scale[i];
#define HELIOGRAPH_STORE_CODES(k)                                                              \
  if constexpr ((k) < kVectors) {                                                              \
    rows.Store(d, sum##k, minimum, scale, target + 16 * (k), rows.cols() /* whole vectors */); \
  }                                                                                            \
  (void)sum##k;
  HELIOGRAPH_EACH_ACCUMULATOR(HELIOGRAPH_STORE_CODES)
}

/// Rows of 1, 2 or 4 bits: whole blocks of codes, then the columns behind them.
template <int kBits>
void SumCodeRows(const HaloRows<kBits>& rows, const CsrView& csr, std::int64_t begin,
                 std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const Entries entries{csr.columns, csr.offsets[i], csr.offsets[i + 1], csr.offsets[end]};
    if (entries.begin == entries.end) continue;
    const auto block = [&](auto vectors, std::int64_t first, std::int64_t byte) HWY_ATTR {
      constexpr int kVectors = vectors();
      constexpr int kAtOnce = kVectors < kBlock ? kVectors : kBlock;
      for (std::int64_t lane = 0; lane < 16;
           lane += static_cast<std::int64_t>(hn::Lanes(FloatTag()))) {
        SumLanes<kBits, kVectors * kBits, 0, kAtOnce>(rows, i, entries, first, byte, lane);
        if constexpr (kAtOnce < kVectors) {
          SumLanes<kBits, kVectors * kBits, kAtOnce, kVectors - kAtOnce>(rows, i, entries, first,
                                                                         byte, lane);
        }
      }
    };
    const std::int64_t rest = ForCodeBlocks<kBits>(rows.cols(), block);
    if (rest < rows.cols()) SumRow<kBlock>(rows, i, entries, rest);
  }
}

template <bool kScaled>
void SumInnerRows(const CsrView& csr, ConstMatrixView x, const float* col_scale, bool self,
                  const float* row_scale, MatrixView out, bool in_blocks, std::int64_t begin,
                  std::int64_t end) {
  using Quad = hn::CappedTag<float, 4>;
  using Single = hn::CappedTag<float, 1>;
  if (x.cols >= static_cast<std::int64_t>(hn::Lanes(FloatTag()))) {
    const InnerRows<FloatTag, kScaled> rows{x, col_scale, self, row_scale, out};
    if (in_blocks) return SumRowsInBlocks<kBlock>(rows, csr, x.rows, begin, end);
    SumRows<kBlock>(rows, csr, begin, end);
  } else if (x.cols >= 4) {
    const InnerRows<Quad, kScaled> rows{x, col_scale, self, row_scale, out};
    SumRows<4>(rows, csr, begin, end);
  } else {
    const InnerRows<Single, kScaled> rows{x, col_scale, self, row_scale, out};
    SumRows<3>(rows, csr, begin, end);
  }
}

void AggregateInnerRows(const CsrView& csr, ConstMatrixView x, const float* col_scale, bool self,
                        const float* row_scale, MatrixView out, bool in_blocks, std::int64_t begin,
                        std::int64_t end) {
  if (col_scale == nullptr) {
    SumInnerRows<false>(csr, x, col_scale, self, row_scale, out, in_blocks, begin, end);
  } else {
    SumInnerRows<true>(csr, x, col_scale, self, row_scale, out, in_blocks, begin, end);
  }
}

void AggregateHaloRows(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                       MatrixView out, bool in_blocks, std::int64_t begin, std::int64_t end) {
  const std::size_t row_bytes = packed.format.row_bytes(packed.cols);
#define HELIOGRAPH_HALO(bits_)                                     \
  case bits_: {                                                    \
    const HaloRows<bits_> rows{packed, row_bytes, row_scale, out}; \
    if constexpr ((bits_) < 8) {                                   \
      SumCodeRows(rows, csr, begin, end);                          \
    } else if ((bits_) == 32 && in_blocks) {                       \
      SumRowsInBlocks<kBlock>(rows, csr, packed.rows, begin, end); \
    } else {                                                       \
      SumRows<kBlock>(rows, csr, begin, end);                      \
    }                                                              \
    break;                                                         \
  }
  switch (packed.format.bits) {
    HELIOGRAPH_HALO(1)
    HELIOGRAPH_HALO(2)
    HELIOGRAPH_HALO(4)
    HELIOGRAPH_HALO(8)
    HELIOGRAPH_HALO(16)
    HELIOGRAPH_HALO(32)
    default:
      break;
  }
}

void AggregateBf16Rows(const CsrView& csr, Bf16View stored, bool self, const float* row_scale,
                       MatrixView out, std::int64_t begin, std::int64_t end) {
  SumRows<kBlock>(Bf16Rows{stored, self, row_scale, out}, csr, begin, end);
}

#undef HELIOGRAPH_EACH_ACCUMULATOR
#undef HELIOGRAPH_AT
#undef HELIOGRAPH_ZERO
#undef HELIOGRAPH_ADD
#undef HELIOGRAPH_STORE
#undef HELIOGRAPH_ADD_CODES
#undef HELIOGRAPH_TAKE_UP
#undef HELIOGRAPH_LEAVE
#undef HELIOGRAPH_STORE_CODES
#undef HELIOGRAPH_REST
#undef HELIOGRAPH_HALO

}  // namespace heliograph::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heliograph::cpu {

HWY_EXPORT(AggregateInnerRows);
HWY_EXPORT(AggregateHaloRows);
HWY_EXPORT(StoreBf16Rows);
HWY_EXPORT(AggregateBf16Rows);

void aggregate_inner_rows(const CsrView& csr, ConstMatrixView x, const float* col_scale, bool self,
                          const float* row_scale, MatrixView out, bool in_blocks,
                          std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(AggregateInnerRows)
  (csr, x, col_scale, self, row_scale, out, in_blocks, begin, end);
}

void aggregate_halo_rows(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                         MatrixView out, bool in_blocks, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(AggregateHaloRows)(csr, packed, row_scale, out, in_blocks, begin, end);
}

void store_bf16_rows(ConstMatrixView x, const float* col_scale, Bf16View stored, std::int64_t begin,
                     std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(StoreBf16Rows)(x, col_scale, stored, begin, end);
}

void aggregate_bf16_rows(const CsrView& csr, Bf16View stored, bool self, const float* row_scale,
                         MatrixView out, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(AggregateBf16Rows)(csr, stored, self, row_scale, out, begin, end);
}

}  // namespace heliograph::cpu
#endif
