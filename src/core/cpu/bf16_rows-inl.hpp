// Writes rows as bf16 for the inner aggregation and reads them as neighbour rows. Compiled once for
// each Highway target.

// clang-format off
#if defined(HELIOGRAPH_BF16_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HELIOGRAPH_BF16_ROWS_INL
#undef HELIOGRAPH_BF16_ROWS_INL
#else
#define HELIOGRAPH_BF16_ROWS_INL
#endif
// clang-format on

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "core/cpu/packed_lanes-inl.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"

HWY_BEFORE_NAMESPACE();
namespace heliograph::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// nearest_bf16() of every lane.
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, heliograph::HWY_NAMESPACE::FloatTag>> NearestBf16(
    heliograph::HWY_NAMESPACE::FloatTag d, heliograph::HWY_NAMESPACE::FloatVector value) {
  using Tag = heliograph::HWY_NAMESPACE::FloatTag;
  const hn::RebindToUnsigned<Tag> du;
  const auto bits = hn::BitCast(du, value);
  const auto half = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(half, hn::Set(du, 1U));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffU))));
  const auto nan = hn::RebindMask(du, hn::IsNaN(value));
  const auto chosen = hn::IfThenElse(nan, hn::Or(half, hn::Set(du, 0x40U)), rounded);
  (void)d;
  return hn::DemoteTo(hn::Rebind<std::uint16_t, Tag>(),
                      hn::BitCast(hn::RebindToSigned<Tag>(), chosen));
}

inline void StoreBf16Rows(ConstMatrixView x, const float* col_scale, Bf16View stored,
                          std::int64_t begin, std::int64_t end) {
  const heliograph::HWY_NAMESPACE::FloatTag d;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t r = begin; r < end; ++r) {
    const float* HWY_RESTRICT from = x.row(r);
    std::uint16_t* HWY_RESTRICT to = stored.row(r);
    const float scale = col_scale == nullptr ? 1.0F : col_scale[r];
    const auto factor = hn::Set(d, scale);
    const auto store = [&](std::int64_t c) HWY_ATTR {
      hn::StoreU(NearestBf16(d, hn::Mul(factor, hn::LoadU(d, from + c))), d16, to + c);
    };
    std::int64_t c = 0;
    for (; c + lanes <= x.cols; c += lanes) store(c);
    if (c < x.cols && lanes <= x.cols) {
      store(x.cols - lanes);
    } else {
      for (; c < x.cols; ++c) to[c] = nearest_bf16(scale * from[c]);
    }
  }
}

/// Neighbour rows in bf16, already scaled. Vectors may read the rows' padding.
template <bool kValues>
struct Bf16Rows {
  using Tag = heliograph::HWY_NAMESPACE::FloatTag;
  using V = heliograph::HWY_NAMESPACE::FloatVector;
  static constexpr bool kOverlap = false;

  Bf16View stored;
  float self;
  const float* row_scale;
  MatrixView out;
  const float* values;  ///< Of the entries; read only if kValues.

  std::int64_t cols() const { return stored.cols; }
  bool skips_empty_rows() const { return false; }
  const std::byte* Row(std::int64_t j, std::int64_t column) const {
    return reinterpret_cast<const std::byte*>(stored.row(j) + column);
  }
  const std::byte* PrefetchBegin(std::int64_t j, std::int64_t column) const {
    return Row(j, column);
  }
  std::int64_t PrefetchBytes(std::int64_t columns) const { return columns * 2; }
  HWY_INLINE V Weight(Tag d, std::int64_t) const { return hn::Set(d, 1.0F); }
  HWY_INLINE V EntryWeight(Tag d, std::int64_t, std::int64_t e) const {
    return kValues ? hn::Set(d, values[e]) : hn::Zero(d);
  }
  HWY_INLINE float Minimum(std::int64_t, std::int64_t) const { return 0; }
  HWY_INLINE V Add(Tag d, const std::byte* row, std::int64_t column, V weight, V sum) const {
    const V value =
        heliograph::HWY_NAMESPACE::PlainValues<16>(d, row, static_cast<std::size_t>(column));
    if constexpr (kValues) return hn::Add(sum, hn::Mul(weight, value));
    (void)weight;
    return hn::Add(sum, value);
  }
  float* Out(std::int64_t i, std::int64_t column) const { return out.row(i) + column; }
  HWY_INLINE void Store(Tag d, V sum, float, float scale, float* target, std::int64_t valid) const {
    const V value = hn::Mul(hn::Set(d, scale), sum);
    if (valid >= static_cast<std::int64_t>(hn::Lanes(d))) {
      hn::StoreU(value, d, target);
      return;
    }
    HWY_ALIGN float lanes[16];
    hn::Store(value, d, lanes);
    for (std::int64_t c = 0; c < valid; ++c) target[c] = lanes[c];
  }
};

}  // namespace heliograph::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
