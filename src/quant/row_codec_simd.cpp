// Encodes spans of 32 columns, the spans of noise16(); a block of codes is a whole number of
// spans. The columns after the last span go through a padded copy. Compiled once for each Highway
// target, with the bytes of row_codec_reference.cpp on each.

#include "core/cpu/simd_targets.hpp"
#include "quant/row_codec.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/row_codec_simd.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// after foreach_target
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "quant/pack_codes-inl.hpp"
#include "quant/row_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace heliograph::HWY_NAMESPACE {

/// rounds_up(t, noise) in each lane: t > (noise + 0.5) * 2^-16, of which both sides are exact.
HWY_INLINE hn::Mask<FloatTag> RoundsUp(FloatTag d, FloatVector t, WordVector noise) {
  const auto whole = hn::ConvertTo(d, hn::BitCast(hn::RebindToSigned<FloatTag>(), noise));
  return hn::Gt(t, hn::MulAdd(whole, hn::Set(d, 0x1p-16F), hn::Set(d, 0x1p-17F)));
}

/// One-bit codes of a vector of values, as a mask.
HWY_INLINE hn::Mask<FloatTag> OneBit(FloatTag d, FloatVector value, const CodeParameters& p,
                                     WordVector noise) {
  // The whole part of t need not be split off: from t = 1 on the code is 1 anyway.
  const auto above = hn::Sub(value, hn::Set(d, p.minimum));
  return RoundsUp(d, hn::Mul(above, hn::Set(d, p.inverse_step)), noise);
}

/// Codes of 2, 4 or 8 bits of a vector of values.
template <int kBits>
HWY_INLINE WordVector Codes(FloatTag d, FloatVector value, const CodeParameters& p,
                            WordVector noise) {
  const hn::RebindToSigned<FloatTag> di;
  const auto above = hn::Sub(value, hn::Set(d, p.minimum));
  const auto t =
      kBits == 8 ? hn::Div(above, hn::Set(d, p.step)) : hn::Mul(above, hn::Set(d, p.inverse_step));
  const auto whole = hn::ConvertTo(di, t);
  const auto up = RoundsUp(d, hn::Sub(t, hn::ConvertTo(d, whole)), noise);
  const auto one = hn::BitCast(di, hn::IfThenElseZero(up, hn::BitCast(d, hn::Set(di, 1))));
  const auto code = hn::Min(hn::Add(whole, one), hn::Set(di, static_cast<int>(p.top)));
  return hn::BitCast(WordTag(), code);
}

/// The codes of a vector of values, as PackBlock and PackSpan take them.
template <int kBits>
HWY_INLINE auto CodesOf(FloatTag d, FloatVector value, const CodeParameters& p, WordVector noise) {
  if constexpr (kBits == 1) {
    return OneBit(d, value, p, noise);
  } else {
    return Codes<kBits>(d, value, p, noise);
  }
}

/// A row, whose whole spans are read in place, and a scaled and padded copy of its other columns.
struct RowInSpans {
  const float* x;
  float scale;
  std::int64_t cols;
  std::int64_t whole;  // columns in whole spans
  HWY_ALIGN float rest[kSpan];

  RowInSpans(const float* x_, float scale_, std::int64_t cols_)
      : x(x_), scale(scale_), cols(cols_), whole(cols_ / kSpan * kSpan) {
    if (whole == cols) return;
    for (std::int64_t c = whole; c < cols; ++c) rest[c - whole] = scale * x[c];
    pad(rest[0]);
  }
  void pad(float value) { std::fill(rest + (cols - whole), rest + kSpan, value); }
};

/// Finds the minimum and maximum of a row. Returns false if a value is NaN or Inf.
HWY_INLINE bool FindRange(const RowInSpans& row, float& lo, float& hi) {
  const FloatTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto first = hn::Set(d, row.scale * row.x[0]);
  auto low = first;
  auto high = first;
  auto finite = hn::Zero(d);  // NaN as soon as a value is NaN or Inf
  const auto take = [&](const float* x, FloatVector scale) HWY_ATTR {
    const auto value = hn::Mul(scale, hn::LoadU(d, x));
    low = hn::Min(low, value);
    high = hn::Max(high, value);
    finite = hn::MulAdd(value, hn::Zero(d), finite);
  };
  for (std::int64_t c = 0; c < row.whole; c += lanes) take(row.x + c, hn::Set(d, row.scale));
  if (row.whole != row.cols) {
    for (std::int64_t c = 0; c < kSpan; c += lanes) take(row.rest + c, hn::Set(d, 1.0F));
  }
  lo = hn::GetLane(hn::MinOfLanes(d, low));
  hi = hn::GetLane(hn::MaxOfLanes(d, high));
  return hn::GetLane(hn::SumOfLanes(d, finite)) == 0.0F;
}

template <int kBits>
bool EncodeCodes(RowInSpans& row, std::uint64_t key, RowFormat format, std::byte* out) {
  float lo;
  float hi;
  CodeParameters p;
  if (!FindRange(row, lo, hi) || !choose_parameters(lo, hi, format, p)) return false;
  const std::uint16_t halves[2] = {p.minimum_bits, p.step_bits};
  const std::size_t skipped = format.has_minimum ? 0 : 1;
  std::memcpy(out, halves + skipped, format.parameter_bytes());
  out += format.parameter_bytes();
  if (p.step_bits == 0) {
    std::memset(out, 0, static_cast<std::size_t>((row.cols * kBits + 7) / 8));
    return true;
  }
  const FloatTag d;
  const auto codes = [&](const float* x, float scale) HWY_ATTR {
    return [=, &p](std::size_t c, WordVector noise) HWY_ATTR {
      return CodesOf<kBits>(d, hn::Mul(hn::Set(d, scale), hn::LoadU(d, x + c)), p, noise);
    };
  };
  const auto block = [&](auto vectors, std::int64_t first, std::int64_t byte) HWY_ATTR {
    PackBlock<kBits, vectors()>(key, first / kSpan, codes(row.x + first, row.scale), out + byte);
  };
  std::int64_t first = ForCodeBlocks<kBits>(row.cols, block);
  for (; first < row.whole; first += kSpan) {
    PackSpan<kBits>(key, first / kSpan, codes(row.x + first, row.scale), out + first * kBits / 8);
  }
  if (row.whole != row.cols) {
    row.pad(p.minimum);  // code 0
    std::byte last[4 * kBits];
    PackSpan<kBits>(key, row.whole / kSpan, codes(row.rest, 1.0F), last);
    std::memcpy(out + row.whole * kBits / 8, last,
                static_cast<std::size_t>(((row.cols - row.whole) * kBits + 7) / 8));
  }
  return true;
}

/// Encodes a row as bf16 or fp32 in one pass. Returns false if a value is NaN or Inf.
template <int kBits>
bool EncodePlain(RowInSpans& row, std::uint64_t key, std::byte* out) {
  const FloatTag d;
  const WordTag du;
  const hn::RebindToSigned<FloatTag> di;
  auto magnitude = hn::Zero(du);
  const auto encode = [&](const float* x, float scale, std::int64_t span, std::byte* to) HWY_ATTR {
    HWY_ALIGN std::uint16_t half[kSpan];
    HWY_ALIGN float single[kSpan];
    const auto round = [&](std::size_t c, WordVector noise) HWY_ATTR {
      const auto value = hn::Mul(hn::Set(d, scale), hn::LoadU(d, x + c));
      const auto bits = hn::BitCast(du, value);
      magnitude = hn::Max(magnitude, hn::And(bits, hn::Set(du, 0x7fffffffU)));
      if constexpr (kBits == 16) {
        const hn::Rebind<std::uint16_t, FloatTag> d16;
        const auto rounded = hn::ShiftRight<16>(hn::Add(bits, noise));
        const auto size = hn::Min(hn::And(rounded, hn::Set(du, 0x7fffU)), hn::Set(du, 0x7f7fU));
        const auto sign = hn::And(rounded, hn::Set(du, 0x8000U));
        hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::Or(size, sign))), d16, half + c);
      } else {
        hn::StoreU(value, d, single + c);
      }
    };
    if constexpr (kBits == 16) {
      ForSpan(d, key, span, round);
      std::memcpy(to, half, sizeof(half));
    } else {
      for (std::size_t c = 0; c < kSpan; c += hn::Lanes(d)) round(c, hn::Zero(du));
      std::memcpy(to, single, sizeof(single));
    }
  };
  constexpr std::int64_t kBytes = kBits / 8;
  std::int64_t span = 0;
  for (; span * kSpan < row.whole; ++span) {
    encode(row.x + span * kSpan, row.scale, span, out + span * kSpan * kBytes);
  }
  if (row.whole != row.cols) {
    std::byte last[kSpan * kBytes];
    encode(row.rest, 1.0F, span, last);
    std::memcpy(out + row.whole * kBytes, last,
                static_cast<std::size_t>((row.cols - row.whole) * kBytes));
  }
  return hn::GetLane(hn::MaxOfLanes(du, magnitude)) < 0x7f800000U;
}

template <int kBits>
std::int64_t EncodeRange(const EncodeJob& job, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kAhead = 4;  // rows between the prefetch of a row and its use
  const int groups = job.format.coded_groups();
  const std::int64_t cols = groups == 1 ? job.x.cols : job.x.cols / groups;
  const std::size_t group_bytes = job.format.group_bytes(job.x.cols);
  for (std::int64_t i = begin; i < end; ++i) {
    if (i + kAhead < end) {
      const float* next = job.x.row(job.source_row(i + kAhead));
      for (std::int64_t c = 0; c < job.x.cols; c += 16) hwy::Prefetch(next + c);
    }
    const float* x = job.x.row(job.source_row(i));
    std::byte* out = job.out_row(i);
    for (int g = 0; g < groups; ++g, x += cols, out += group_bytes) {
      RowInSpans row(x, job.scale(i), cols);
      const std::uint64_t key = group_key(job.key(i), g);
      bool encoded;
      if constexpr (kBits > 8) {
        encoded = EncodePlain<kBits>(row, key, out);
      } else {
        encoded = EncodeCodes<kBits>(row, key, job.levels(i), out);
      }
      if (!encoded) return i;
    }
  }
  return end;
}

std::int64_t EncodeRows(const EncodeJob& job, std::int64_t begin, std::int64_t end) {
  if (job.x.cols == 0) return encode_rows_reference(job, begin, end);
  switch (job.format.bits) {
    case 1:
      return EncodeRange<1>(job, begin, end);
    case 2:
      return EncodeRange<2>(job, begin, end);
    case 4:
      return EncodeRange<4>(job, begin, end);
    case 8:
      return EncodeRange<8>(job, begin, end);
    case 16:
      return EncodeRange<16>(job, begin, end);
    default:
      return EncodeRange<32>(job, begin, end);
  }
}

}  // namespace heliograph::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heliograph {

HWY_EXPORT(EncodeRows);

std::int64_t encode_rows_simd(const EncodeJob& job, std::int64_t begin, std::int64_t end) {
  return HWY_DYNAMIC_DISPATCH(EncodeRows)(job, begin, end);
}

}  // namespace heliograph
#endif
