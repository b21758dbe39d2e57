// Draws noise for the columns of a row and packs codes into the layout of packed_rows.hpp. Compiled
// once for each Highway target.

// clang-format off
#if defined(HELIOGRAPH_PACK_CODES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HELIOGRAPH_PACK_CODES_INL
#undef HELIOGRAPH_PACK_CODES_INL
#else
#define HELIOGRAPH_PACK_CODES_INL
#endif
// clang-format on

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/cpu/packed_lanes-inl.hpp"

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

/// Packs one block of codes: 16 * kVectors columns of a row from column 32 * span on, whose noise
/// key is `key`. code_of(c, noise) gives the codes of the vector of columns at c in the block, as a
/// mask if kBits is 1.
template <int kBits, int kVectors, class CodeOf>
HWY_INLINE void PackBlock(std::uint64_t key, std::int64_t span, const CodeOf& code_of,
                          std::byte* out) {
  const FloatTag d;
  const WordTag du;
  for (std::size_t lane = 0; lane < 16; lane += hn::Lanes(d)) {
    auto words = hn::Zero(du);
    const auto put = [&](int vector, WordVector noise) HWY_ATTR {
      const auto codes = code_of(static_cast<std::size_t>(16 * vector) + lane, noise);
      if constexpr (kBits == 1) {
        const auto bit = hn::BitCast(d, hn::Set(du, 1U << vector));
        words = hn::Or(words, hn::BitCast(du, hn::IfThenElseZero(codes, bit)));
      } else {
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

/// Packs one span of 32 columns in column order, as 4 * kBits bytes. Arguments as of PackBlock.
template <int kBits, class CodeOf>
HWY_INLINE void PackSpan(std::uint64_t key, std::int64_t span, const CodeOf& code_of,
                         std::byte* out) {
  const FloatTag d;
  const hn::Rebind<std::uint8_t, FloatTag> d8;
  HWY_ALIGN std::uint8_t bytes[kSpan];
  std::uint32_t bits = 0;
  ForSpan(d, key, span, [&](std::size_t c, WordVector noise) HWY_ATTR {
    const auto codes = code_of(c, noise);
    if constexpr (kBits == 1) {
      bits |= MaskBits(d, codes) << c;
    } else {
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

}  // namespace heliograph::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
