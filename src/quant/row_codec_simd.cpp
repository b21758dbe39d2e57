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

#include "core/cpu/packed_lanes-inl.hpp"
#include "quant/row_math.hpp"

HWY_BEFORE_NAMESPACE();
namespace heliograph::HWY_NAMESPACE {

using WordTag = hn::RebindToUnsigned<FloatTag>;
using WordVector = hn::Vec<WordTag>;
constexpr std::int64_t kSpan = 32;

/// noise_word(key, first + lane) in each lane.
HWY_INLINE WordVector NoiseWords(WordTag d, std::uint64_t key, std::uint32_t first) {
  constexpr std::uint32_t kGolden = 0x9e3779b9U;
  const auto lane = hn::Mul(hn::Iota(d, 0), hn::Set(d, kGolden));  // constant
  auto x = hn::Add(lane, hn::Set(d, first * kGolden + static_cast<std::uint32_t>(key)));
  x = hn::Xor(x, hn::ShiftRight<16>(x));
  x = hn::Mul(x, hn::Set(d, 0x7feb352dU));
  const auto high = hn::Set(d, static_cast<std::uint32_t>(key >> 32));
  x = hn::Xor(hn::Xor(x, hn::ShiftRight<15>(x)), high);
  x = hn::Mul(x, hn::Set(d, 0x846ca68bU));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}

/// Runs body(first column in the span, noise) for each vector of a span of 32 columns. The low
/// halves of 16 noise words serve its first 16 columns, the high halves the others.
template <class Body>
HWY_INLINE void ForSpan(FloatTag d, std::uint64_t key, std::int64_t span, const Body& body) {
  const WordTag du;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t j = 0; j < 16; j += lanes) {
    const auto words = NoiseWords(du, key, static_cast<std::uint32_t>(span * 16 + j));
    body(j, hn::And(words, hn::Set(du, 0xffffU)));
    body(16 + j, hn::ShiftRight<16>(words));
  }
}

/// The mask as an integer, with lane 0 in the lowest bit.
HWY_INLINE std::uint32_t MaskBits(FloatTag d, hn::Mask<FloatTag> mask) {
#if HWY_TARGET == HWY_SCALAR
  (void)d;
  return mask.bits != 0 ? 1U : 0U;
#else
  std::uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  return LoadWord(reinterpret_cast<const std::byte*>(bytes));
#endif
}

/// rounds_up(t, noise) in each lane: t > (noise + 0.5) * 2^-16, of which both sides are exact.
HWY_INLINE hn::Mask<FloatTag> RoundsUp(FloatTag d, FloatVector t, WordVector noise) {
  const auto whole = hn::ConvertTo(d, hn::BitCast(hn::RebindToSigned<FloatTag>(), noise));
  return hn::Gt(t, hn::MulAdd(whole, hn::Set(d, 0x1p-16F), hn::Set(d, 0x1p-17F)));
}

/// Packs 32 codes, one in each byte, into 32 * kBits bits.
template <int kBits>
HWY_INLINE void PackBytes(const std::uint8_t* bytes, std::byte* out) {
  for (int i = 0; i < 4; ++i) {
    std::uint64_t x;
    std::memcpy(&x, bytes + 8 * i, 8);
    if constexpr (kBits == 2) {
      x = (x | x >> 6) & 0x000f000f000f000fULL;
      x = (x | x >> 12) & 0x000000ff000000ffULL;
      x |= x >> 24;
    } else {
      x = (x | x >> 4) & 0x00ff00ff00ff00ffULL;
      x = (x | x >> 8) & 0x0000ffff0000ffffULL;
      x |= x >> 16;
    }
    std::memcpy(out + i * kBits, &x, kBits);
  }
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
  const auto code = hn::Min(hn::Add(whole, one), hn::Set(di, (1 << kBits) - 1));
  return hn::BitCast(WordTag(), code);
}

template <int kLaneBits>
HWY_INLINE void StoreLaneWords(WordVector words, std::byte* block, std::size_t lane) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(block) + kLaneBits / 8 * lane;
#if HWY_TARGET == HWY_SCALAR
  const std::uint32_t word = hn::GetLane(words);
  std::memcpy(bytes, &word, kLaneBits / 8);
#else
  const auto signed_words = hn::BitCast(hn::RebindToSigned<FloatTag>(), words);
  if constexpr (kLaneBits == 32) {
    const hn::Repartition<std::uint8_t, FloatTag> d8;
    hn::StoreU(hn::BitCast(d8, words), d8, bytes);
  } else if constexpr (kLaneBits == 16) {
    const hn::Rebind<std::uint16_t, FloatTag> d16;
    const hn::Repartition<std::uint8_t, decltype(d16)> d8;
    hn::StoreU(hn::BitCast(d8, hn::DemoteTo(d16, signed_words)), d8, bytes);
  } else {
    const hn::Rebind<std::uint8_t, FloatTag> d8;
    hn::StoreU(hn::DemoteTo(d8, signed_words), d8, bytes);
  }
#endif
}

/// Encodes one block: the 16 * kVectors columns at x, the row's columns from 32 * span on.
template <int kBits, int kVectors>
HWY_INLINE void EncodeBlock(const float* x, float scale, const CodeParameters& p, std::uint64_t key,
                            std::int64_t span, std::byte* out) {
  const FloatTag d;
  const WordTag du;
  for (std::size_t lane = 0; lane < 16; lane += hn::Lanes(d)) {
    auto words = hn::Zero(du);
    const auto put = [&](int vector, WordVector noise) HWY_ATTR {
      const auto value = hn::Mul(hn::Set(d, scale), hn::LoadU(d, x + 16 * vector + lane));
      if constexpr (kBits == 1) {
        const auto bit = hn::BitCast(d, hn::Set(du, 1U << vector));
        words = hn::Or(words, hn::BitCast(du, hn::IfThenElseZero(OneBit(d, value, p, noise), bit)));
      } else {
        const auto codes = Codes<kBits>(d, value, p, noise);
        words = hn::Or(words, hn::ShiftLeftSame(codes, vector * kBits));
      }
    };
#if HWY_COMPILER_GCC && !HWY_COMPILER_CLANG
#pragma GCC unroll 8
#endif
    for (int pair = 0; pair < kVectors / 2; ++pair) {
      const auto noise = NoiseWords(
          du, key,
          static_cast<std::uint32_t>((span + pair) * 16) + static_cast<std::uint32_t>(lane));
      put(2 * pair, hn::And(noise, hn::Set(du, 0xffffU)));
      put(2 * pair + 1, hn::ShiftRight<16>(noise));
    }
    StoreLaneWords<kVectors * kBits>(words, out, lane);
  }
}

/// Encodes one span in column order: 32 columns at x, times `scale`, as 4 * kBits bytes.
template <int kBits>
HWY_INLINE void EncodeSpan(const float* x, float scale, const CodeParameters& p, std::uint64_t key,
                           std::int64_t span, std::byte* out) {
  const FloatTag d;
  const hn::Rebind<std::uint8_t, FloatTag> d8;
  HWY_ALIGN std::uint8_t bytes[kSpan];
  std::uint32_t bits = 0;
  ForSpan(d, key, span, [&](std::size_t c, WordVector noise) HWY_ATTR {
    const auto value = hn::Mul(hn::Set(d, scale), hn::LoadU(d, x + c));
    if constexpr (kBits == 1) {
      bits |= MaskBits(d, OneBit(d, value, p, noise)) << c;
    } else {
      const auto codes = Codes<kBits>(d, value, p, noise);
      hn::StoreU(hn::DemoteTo(d8, hn::BitCast(hn::RebindToSigned<FloatTag>(), codes)), d8,
                 bytes + c);
    }
  });
  if constexpr (kBits == 1) {
    std::memcpy(out, &bits, 4);
  } else if constexpr (kBits == 8) {
    std::memcpy(out, bytes, kSpan);
  } else {
    PackBytes<kBits>(bytes, out);
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
  const auto block = [&](auto vectors, std::int64_t first, std::int64_t byte) HWY_ATTR {
    EncodeBlock<kBits, vectors()>(row.x + first, row.scale, p, key, first / kSpan, out + byte);
  };
  std::int64_t first = ForCodeBlocks<kBits>(row.cols, block);
  for (; first < row.whole; first += kSpan) {
    EncodeSpan<kBits>(row.x + first, row.scale, p, key, first / kSpan, out + first * kBits / 8);
  }
  if (row.whole != row.cols) {
    row.pad(p.minimum);  // code 0
    std::byte last[4 * kBits];
    EncodeSpan<kBits>(row.rest, 1.0F, p, key, row.whole / kSpan, last);
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
        encoded = EncodeCodes<kBits>(row, key, job.format, out);
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
