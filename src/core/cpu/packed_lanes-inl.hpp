// Reads packed values as vectors of floats. Compiled once for each Highway target.

// clang-format off
#if defined(HELIOGRAPH_PACKED_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HELIOGRAPH_PACKED_LANES_INL
#undef HELIOGRAPH_PACKED_LANES_INL
#else
#define HELIOGRAPH_PACKED_LANES_INL
#endif
// clang-format on

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace heliograph::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Vectors of at most 16 floats, the number of lanes of a block of codes.
using FloatTag = hn::CappedTag<float, 16>;
using FloatVector = hn::Vec<FloatTag>;

HWY_INLINE std::uint32_t LoadWord(const std::byte* p) {
  std::uint32_t word;
  std::memcpy(&word, p, 4);
  return word;
}

/// `value` where the one-bit codes of columns [column, column + N) are set, else 0. The codes are
/// in column order. Targets without mask registers read whole words of 32 columns.
HWY_INLINE FloatVector SelectByBits(FloatTag d, const std::byte* codes, std::size_t column,
                                    FloatVector value) {
#if HWY_TARGET <= HWY_AVX3
  const auto mask = hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(codes) + column / 8);
  return hn::IfThenElseZero(mask, value);
#else
  const hn::RebindToUnsigned<FloatTag> du;
  const auto word = hn::Set(du, LoadWord(codes + column / 32 * 4));
  const auto lane = hn::Iota(du, static_cast<std::uint32_t>(column % 32));
  const auto bit = hn::Shl(hn::Set(du, 1U), lane);
  return hn::IfThenElseZero(hn::RebindMask(d, hn::TestBit(word, bit)), value);
#endif
}

/// Codes of columns [column, column + N), in column order, as floats; `column` is a multiple of N.
template <int kBits>
HWY_INLINE FloatVector CodesAsFloat(FloatTag d, const std::byte* codes, std::size_t column) {
  const hn::RebindToUnsigned<FloatTag> du;
  const hn::RebindToSigned<FloatTag> di;
  if constexpr (kBits == 8) {
    const hn::Rebind<std::uint8_t, FloatTag> d8;
    const auto bytes = hn::LoadU(d8, reinterpret_cast<const std::uint8_t*>(codes) + column);
    return hn::ConvertTo(d, hn::PromoteTo(di, bytes));
  } else {
    constexpr std::size_t kPerWord = 32 / kBits;
    const std::byte* first = codes + column / kPerWord * 4;
    auto words = hn::Set(du, LoadWord(first));
    if (hn::Lanes(d) > kPerWord) {
      words = hn::IfThenElse(hn::FirstN(du, kPerWord), words, hn::Set(du, LoadWord(first + 4)));
    }
    const auto lane = hn::And(hn::Iota(du, static_cast<std::uint32_t>(column % kPerWord)),
                              hn::Set(du, static_cast<std::uint32_t>(kPerWord - 1)));
    constexpr int kLogBits = kBits == 2 ? 1 : 2;
    const auto shift = hn::ShiftLeft<kLogBits>(lane);
    const auto code = hn::And(hn::Shr(words, shift), hn::Set(du, (1U << kBits) - 1U));
    return hn::ConvertTo(d, hn::BitCast(di, code));
  }
}

/// Lanes [lane, lane + N) of a block of codes, each of kLaneBits bits, extended to 32-bit words.
template <int kLaneBits>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<FloatTag>> LaneWords(const std::byte* block,
                                                             std::size_t lane) {
  const hn::RebindToUnsigned<FloatTag> du;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(block) + kLaneBits / 8 * lane;
#if HWY_TARGET == HWY_SCALAR
  std::uint32_t word = 0;
  std::memcpy(&word, bytes, kLaneBits / 8);
  return hn::Set(du, word);
#else
  if constexpr (kLaneBits == 32) {
    return hn::BitCast(du, hn::LoadU(hn::Repartition<std::uint8_t, FloatTag>(), bytes));
  } else if constexpr (kLaneBits == 16) {
    const hn::Rebind<std::uint16_t, FloatTag> d16;
    const hn::Repartition<std::uint8_t, decltype(d16)> d8;
    return hn::PromoteTo(du, hn::BitCast(d16, hn::LoadU(d8, bytes)));
  } else {
    return hn::PromoteTo(du, hn::LoadU(hn::Rebind<std::uint8_t, FloatTag>(), bytes));
  }
#endif
}

/// Code number `vector` of every lane, as float.
template <int kBits>
HWY_INLINE FloatVector LaneCodes(FloatTag d, hn::Vec<hn::RebindToUnsigned<FloatTag>> words,
                                 int vector) {
  const hn::RebindToUnsigned<FloatTag> du;
  const hn::RebindToSigned<FloatTag> di;
  const auto code =
      hn::And(hn::ShiftRightSame(words, vector * kBits), hn::Set(du, (1U << kBits) - 1U));
  return hn::ConvertTo(d, hn::BitCast(di, code));
}

/// Runs body(vectors, first column, first byte) for each block of codes in a row of `cols` columns;
/// `vectors` is an integral_constant. Returns the first column that is in no block.
template <int kBits, class Body>
HWY_INLINE std::int64_t ForCodeBlocks(std::int64_t cols, const Body& body) {
  std::int64_t first = 0;
  if constexpr (kBits < 8) {
    const auto blocks = [&](auto vectors) HWY_ATTR {
      for (; cols - first >= 16 * vectors(); first += 16 * vectors()) {
        body(vectors, first, first * kBits / 8);
      }
    };
    if constexpr (kBits < 4) blocks(std::integral_constant<int, 16>());
    blocks(std::integral_constant<int, 8>());
    if constexpr (kBits > 1) blocks(std::integral_constant<int, 4>());
    if constexpr (kBits > 2) blocks(std::integral_constant<int, 2>());
  }
  return first;
}

/// Columns [column, column + N) of a bf16 or fp32 row, which need not be aligned.
template <int kBits>
HWY_INLINE FloatVector PlainValues(FloatTag d, const std::byte* row, std::size_t column) {
#if HWY_TARGET == HWY_SCALAR
  std::uint32_t bits = 0;
  std::memcpy(&bits, row + kBits / 8 * column, kBits / 8);
  return hn::BitCast(d, hn::Set(hn::RebindToUnsigned<FloatTag>(), bits << (32 - kBits)));
#else
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(row);
  if constexpr (kBits == 32) {
    const hn::Repartition<std::uint8_t, FloatTag> d8;
    return hn::BitCast(d, hn::LoadU(d8, bytes + 4 * column));
  } else {
    const hn::RebindToUnsigned<FloatTag> du;
    const hn::Rebind<std::uint16_t, FloatTag> d16;
    const hn::Repartition<std::uint8_t, decltype(d16)> d8;
    const auto half = hn::BitCast(d16, hn::LoadU(d8, bytes + 2 * column));
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, half)));
  }
#endif
}

}  // namespace heliograph::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
