// Aggregation of inner, halo and bf16 rows, compiled once for each Highway target.

#include "core/cpu/aggregate_rows.hpp"
#include "core/cpu/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/aggregate_simd.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>

#include "core/cpu/accumulators.hpp"
#include "core/cpu/bf16_rows-inl.hpp"
#include "core/cpu/code_group-inl.hpp"
#include "core/cpu/neighbour_rows-inl.hpp"
#include "core/cpu/packed_lanes-inl.hpp"
#include "core/cpu/sum_rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heliograph::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using heliograph::HWY_NAMESPACE::CodeGroup;
using heliograph::HWY_NAMESPACE::ForCodeBlocks;

// Entries between the prefetch of a row of codes and its use.
constexpr std::int64_t kCodesAhead = 40;

/// Adds kVectors vectors of a block of codes, from vector kFirst on, to output row i: lanes [lane,
/// lane + N) of the block at first column `column` and first byte `byte`.
template <int kBits, int kLaneBits, int kFirst, int kVectors, class Rows>
HWY_INLINE void SumLanes(const Rows& rows, std::int64_t i, const Entries& entries,
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
      // Past the last entry, the group is filled with an entry of step 0.
      const bool real = e + r < entries.end;
      const std::int64_t j = entries.columns[real ? e + r : e];
      codes[r] = rows.RowBegin(j) + begin;
      steps[r] = real ? rows.Step(j, e + r) : 0.0F;
      if (real) minimum += rows.Minimum(j, e + r);
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

/// Sums halo rows of 1, 2 or 4 bits: whole blocks of codes, then the columns after them.
template <int kBits, class Rows>
void SumCodeRows(const Rows& rows, const CsrView& csr, std::int64_t begin, std::int64_t end) {
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

template <RowFactor kFactor>
void SumInnerRows(const CsrView& csr, ConstMatrixView x, const float* col_scale, float self,
                  const float* row_scale, MatrixView out, std::int64_t begin, std::int64_t end) {
  using Quad = hn::CappedTag<float, 4>;
  using Single = hn::CappedTag<float, 1>;
  if (x.cols >= static_cast<std::int64_t>(hn::Lanes(FloatTag()))) {
    const InnerRows<FloatTag, kFactor> rows{x, col_scale, self, row_scale, out, csr.values};
    SumRows<kBlock>(rows, csr, begin, end);
  } else if (x.cols >= 4) {
    const InnerRows<Quad, kFactor> rows{x, col_scale, self, row_scale, out, csr.values};
    SumRows<4>(rows, csr, begin, end);
  } else {
    const InnerRows<Single, kFactor> rows{x, col_scale, self, row_scale, out, csr.values};
    SumRows<3>(rows, csr, begin, end);
  }
}

void AggregateInnerRows(const CsrView& csr, ConstMatrixView x, const float* col_scale, float self,
                        const float* row_scale, MatrixView out, std::int64_t begin,
                        std::int64_t end) {
  if (csr.values != nullptr) {
    SumInnerRows<RowFactor::value>(csr, x, col_scale, self, row_scale, out, begin, end);
  } else if (col_scale == nullptr) {
    SumInnerRows<RowFactor::none>(csr, x, col_scale, self, row_scale, out, begin, end);
  } else {
    SumInnerRows<RowFactor::scale>(csr, x, col_scale, self, row_scale, out, begin, end);
  }
}

void AggregateInnerTile(const CsrView& csr, ConstMatrixView x, const float* col_scale, float self,
                        const float* row_scale, MatrixView out, std::int64_t tile) {
  if (col_scale == nullptr) {
    using Rows = InnerRows<FloatTag, RowFactor::none>;
    SumTileColumns(Rows{x, col_scale, self, row_scale, out, nullptr}, csr, tile);
  } else {
    using Rows = InnerRows<FloatTag, RowFactor::scale>;
    SumTileColumns(Rows{x, col_scale, self, row_scale, out, nullptr}, csr, tile);
  }
}

template <bool kValues>
void SumHaloRows(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                 MatrixView out, std::int64_t begin, std::int64_t end) {
#define HELIOGRAPH_HALO(bits_)                                               \
  case bits_: {                                                              \
    const HaloRows<bits_, kValues> rows{packed, row_scale, out, csr.values}; \
    if constexpr ((bits_) < 8) {                                             \
      SumCodeRows<bits_>(rows, csr, begin, end);                             \
    } else {                                                                 \
      SumRows<kBlock>(rows, csr, begin, end);                                \
    }                                                                        \
    break;                                                                   \
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

void AggregateHaloRows(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                       MatrixView out, std::int64_t begin, std::int64_t end) {
  if (csr.values != nullptr) {
    SumHaloRows<true>(csr, packed, row_scale, out, begin, end);
  } else {
    SumHaloRows<false>(csr, packed, row_scale, out, begin, end);
  }
}

void AggregateHaloTile(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                       MatrixView out, std::int64_t tile) {
  SumTileColumns(HaloRows<32, false>{packed, row_scale, out, nullptr}, csr, tile);
}

void AggregateBf16Rows(const CsrView& csr, Bf16View stored, float self, const float* row_scale,
                       MatrixView out, std::int64_t begin, std::int64_t end) {
  if (csr.values != nullptr) {
    SumRows<kBlock>(Bf16Rows<true>{stored, self, row_scale, out, csr.values}, csr, begin, end);
  } else {
    SumRows<kBlock>(Bf16Rows<false>{stored, self, row_scale, out, nullptr}, csr, begin, end);
  }
}

void AggregateBf16Tile(const CsrView& csr, Bf16View stored, float self, const float* row_scale,
                       MatrixView out, std::int64_t tile) {
  SumTileColumns(Bf16Rows<false>{stored, self, row_scale, out, nullptr}, csr, tile);
}

#undef HELIOGRAPH_ADD_CODES
#undef HELIOGRAPH_STORE_CODES
#undef HELIOGRAPH_HALO

}  // namespace heliograph::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heliograph::cpu {

HWY_EXPORT(AggregateInnerRows);
HWY_EXPORT(AggregateInnerTile);
HWY_EXPORT(AggregateHaloRows);
HWY_EXPORT(AggregateHaloTile);
HWY_EXPORT(StoreBf16Rows);
HWY_EXPORT(AggregateBf16Rows);
HWY_EXPORT(AggregateBf16Tile);

void aggregate_inner_rows(const CsrView& csr, ConstMatrixView x, const float* col_scale, float self,
                          const float* row_scale, MatrixView out, std::int64_t begin,
                          std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(AggregateInnerRows)(csr, x, col_scale, self, row_scale, out, begin, end);
}

void aggregate_inner_tile(const CsrView& csr, ConstMatrixView x, const float* col_scale, float self,
                          const float* row_scale, MatrixView out, std::int64_t tile) {
  HWY_DYNAMIC_DISPATCH(AggregateInnerTile)(csr, x, col_scale, self, row_scale, out, tile);
}

void aggregate_halo_rows(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                         MatrixView out, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(AggregateHaloRows)(csr, packed, row_scale, out, begin, end);
}

void aggregate_halo_tile(const CsrView& csr, const PackedRows& packed, const float* row_scale,
                         MatrixView out, std::int64_t tile) {
  HWY_DYNAMIC_DISPATCH(AggregateHaloTile)(csr, packed, row_scale, out, tile);
}

void store_bf16_rows(ConstMatrixView x, const float* col_scale, Bf16View stored, std::int64_t begin,
                     std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(StoreBf16Rows)(x, col_scale, stored, begin, end);
}

void aggregate_bf16_rows(const CsrView& csr, Bf16View stored, float self, const float* row_scale,
                         MatrixView out, std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(AggregateBf16Rows)(csr, stored, self, row_scale, out, begin, end);
}

void aggregate_bf16_tile(const CsrView& csr, Bf16View stored, float self, const float* row_scale,
                         MatrixView out, std::int64_t tile) {
  HWY_DYNAMIC_DISPATCH(AggregateBf16Tile)(csr, stored, self, row_scale, out, tile);
}

}  // namespace heliograph::cpu
#endif
