// The rows that aggregation sums: inner rows in fp32 and packed halo rows. Compiled once for each
// Highway target.

// clang-format off
#if defined(HELIOGRAPH_NEIGHBOUR_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HELIOGRAPH_NEIGHBOUR_ROWS_INL
#undef HELIOGRAPH_NEIGHBOUR_ROWS_INL
#else
#define HELIOGRAPH_NEIGHBOUR_ROWS_INL
#endif
// clang-format on

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/cpu/packed_lanes-inl.hpp"
#include "core/matrix.hpp"
#include "core/packed_rows.hpp"

HWY_BEFORE_NAMESPACE();
namespace heliograph::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using heliograph::HWY_NAMESPACE::CodesAsFloat;
using heliograph::HWY_NAMESPACE::FloatTag;
using heliograph::HWY_NAMESPACE::FloatVector;
using heliograph::HWY_NAMESPACE::PlainValues;
using heliograph::HWY_NAMESPACE::SelectByBits;

/// What multiplies the rows in a sum: nothing, their nodes' scales, or these (if there are any) and
/// the entries' values.
enum class RowFactor { none, scale, value };

/// Inner rows in fp32. D may be the tag of a short vector, for narrow matrices.
template <class D, RowFactor kFactor>
struct InnerRows {
  using Tag = D;
  using V = hn::Vec<D>;
  static constexpr bool kOverlap = true;  // the last vector ends at the last column

  ConstMatrixView x;
  const float* col_scale;
  float self;
  const float* row_scale;
  MatrixView out;
  const float* values;

  std::int64_t cols() const { return x.cols; }
  bool skips_empty_rows() const { return false; }
  const float* Row(std::int64_t j, std::int64_t column) const { return x.row(j) + column; }
  const float* PrefetchBegin(std::int64_t j, std::int64_t column) const { return Row(j, column); }
  std::int64_t PrefetchBytes(std::int64_t columns) const { return columns * 4; }
  /// The factor of row j as a node's own row.
  HWY_INLINE V Weight(D d, std::int64_t j) const {
    if constexpr (kFactor == RowFactor::none) return hn::Zero(d);
    if constexpr (kFactor == RowFactor::scale) return hn::Set(d, col_scale[j]);
    return hn::Set(d, col_scale == nullptr ? 1.0F : col_scale[j]);
  }
  /// The factor of row j in entry e.
  HWY_INLINE V EntryWeight(D d, std::int64_t j, std::int64_t e) const {
    if constexpr (kFactor != RowFactor::value) return Weight(d, j);
    return hn::Set(d, col_scale == nullptr ? values[e] : values[e] * col_scale[j]);
  }
  HWY_INLINE float Minimum(std::int64_t, std::int64_t) const { return 0; }
  HWY_INLINE V Add(D d, const float* row, std::int64_t column, V weight, V sum) const {
    const V value = hn::LoadU(d, row + column);
    if constexpr (kFactor != RowFactor::none) return hn::Add(sum, hn::Mul(weight, value));
    (void)weight;
    return hn::Add(sum, value);
  }
  float* Out(std::int64_t i, std::int64_t column) const { return out.row(i) + column; }
  HWY_INLINE void Store(D d, V sum, float, float scale, float* target, std::int64_t) const {
    hn::StoreU(hn::Mul(hn::Set(d, scale), sum), d, target);
  }
};

/// Packed halo rows with kBits bits a value, each multiplied by its entry's value if kValues.
template <int kBits, bool kValues>
struct HaloRows {
  using Tag = FloatTag;
  using V = FloatVector;
  static constexpr bool kOverlap = false;  // vectors of codes begin only at certain columns

  PackedRows packed;
  const float* row_scale;
  MatrixView out;
  const float* values;

  static constexpr float self = 0;
  std::int64_t cols() const { return packed.cols; }
  bool skips_empty_rows() const { return true; }
  const std::byte* RowBegin(std::int64_t j) const {
    return packed.data + static_cast<std::size_t>(j) * packed.stride;
  }
  const std::byte* Row(std::int64_t j, std::int64_t column) const {
    return RowBegin(j) + packed.format.parameter_bytes() + column * kBits / 8;
  }
  const std::byte* PrefetchBegin(std::int64_t j, std::int64_t column) const {
    return column == 0 ? RowBegin(j) : Row(j, column);
  }
  std::int64_t PrefetchBytes(std::int64_t columns) const {
    return static_cast<std::int64_t>(packed.format.parameter_bytes()) + columns * kBits / 8;
  }
  HWY_INLINE float Times(float parameter, std::int64_t e) const {
    return kValues ? values[e] * parameter : parameter;
  }
  /// The step of row j times the value of entry e.
  HWY_INLINE float Step(std::int64_t j, std::int64_t e) const {
    std::uint16_t step;
    std::memcpy(&step, RowBegin(j) + packed.format.parameter_bytes() - 2, 2);
    return Times(step_to_float(step), e);
  }
  HWY_INLINE V Weight(FloatTag d, std::int64_t) const { return hn::Zero(d); }  // rows have no self
  HWY_INLINE V EntryWeight(FloatTag d, std::int64_t j, std::int64_t e) const {
    if constexpr (kBits > 8) return kValues ? hn::Set(d, values[e]) : hn::Zero(d);
    return hn::Set(d, Step(j, e));
  }
  /// The minimum of row j times the value of entry e.
  HWY_INLINE float Minimum(std::int64_t j, std::int64_t e) const {
    if (kBits > 8 || !packed.format.has_minimum) return 0;
    std::uint16_t minimum;
    std::memcpy(&minimum, RowBegin(j), 2);
    return Times(bf16_to_float(minimum), e);
  }
  HWY_INLINE V Add(FloatTag d, const std::byte* row, std::int64_t column, V weight, V sum) const {
    const auto c = static_cast<std::size_t>(column);
    if constexpr (kBits > 8) {
      const V value = PlainValues<kBits>(d, row, c);
      return hn::Add(sum, kValues ? hn::Mul(weight, value) : value);
    } else if constexpr (kBits > 1) {
      return hn::MulAdd(CodesAsFloat<kBits>(d, row, c), weight, sum);
    } else {
#if HWY_TARGET <= HWY_AVX3
      const auto* bits = reinterpret_cast<const std::uint8_t*>(row) + c / 8;
      return V{_mm512_mask_add_ps(sum.raw, hn::LoadMaskBits(d, bits).raw, sum.raw, weight.raw)};
#else
      return hn::Add(sum, SelectByBits(d, row, c, weight));
#endif
    }
  }
  float* Out(std::int64_t i, std::int64_t column) const {
    return out.row(i) + packed.col_begin + column;
  }
  HWY_INLINE void Store(FloatTag d, V sum, float minimum, float scale, float* target,
                        std::int64_t valid) const {
    const V value = hn::Mul(hn::Set(d, scale), hn::Add(sum, hn::Set(d, minimum)));
    if (valid >= static_cast<std::int64_t>(hn::Lanes(d))) {
      hn::StoreU(hn::Add(hn::LoadU(d, target), value), d, target);
      return;
    }
    HWY_ALIGN float lanes[16];
    hn::Store(value, d, lanes);
    for (std::int64_t c = 0; c < valid; ++c) target[c] += lanes[c];
  }
};

}  // namespace heliograph::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
