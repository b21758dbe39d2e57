// Decodes a few packed rows at once, as terms of a sum. Compiled once for each Highway target.

// clang-format off
#if defined(HELIOGRAPH_CODE_GROUP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HELIOGRAPH_CODE_GROUP_INL
#undef HELIOGRAPH_CODE_GROUP_INL
#else
#define HELIOGRAPH_CODE_GROUP_INL
#endif
// clang-format on

#include <hwy/highway.h>

#include <cstddef>

#include "core/cpu/packed_lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heliograph::HWY_NAMESPACE {

/// Lanes [lane, lane + N) of one block of codes in kRows packed rows. Term<k>() is the sum over the
/// rows of step x code for vector k of the block.
template <int kBits, int kLaneBits>
class CodeGroup;

#if HWY_TARGET <= HWY_AVX3

/// A register is a table of sums for all 16 values of four bits: one code of 4 bits, or the codes
/// of two rows at 2 bits or of four at 1 bit. One permutation and one addition serve kRows rows.
template <int kBits, int kLaneBits>
class CodeGroup {
 public:
  static constexpr int kRows = 4 / kBits;

  HWY_INLINE CodeGroup(const std::byte* const* codes, const float* steps, std::size_t lane) {
    table_ = _mm512_setzero_ps();
    for (int r = 0; r < kRows; ++r) {
      words_[r] = LaneWords<kLaneBits>(codes[r], lane).raw;
      table_ = Add(table_, r, steps[r]);
    }
    // Interleaves the rows, so that four neighbouring bits are the codes of one column.
    if constexpr (kBits == 1) {
      Exchange<1>(0x55555555, words_[0], words_[1]);
      Exchange<1>(0x55555555, words_[2], words_[3]);
      Exchange<2>(0x33333333, words_[0], words_[2]);
      Exchange<2>(0x33333333, words_[1], words_[3]);
    } else if constexpr (kBits == 2) {
      Exchange<2>(0x33333333, words_[0], words_[1]);
    }
  }

  template <int kVector>
  HWY_INLINE FloatVector Term(FloatTag) const {
    const __m512i index = _mm512_srli_epi32(words_[kVector % kRows], kVector / kRows * 4);
    return FloatVector{_mm512_permutexvar_ps(index, table_)};  // uses the low four bits
  }

 private:
  /// table[i] += step * (code of row r in index i), for all 16 indices.
  static HWY_INLINE __m512 Add(__m512 table, int r, float step) {
    if constexpr (kBits == 1) {
      constexpr __mmask16 kSet[4] = {0xaaaa, 0xcccc, 0xf0f0, 0xff00};
      return _mm512_mask_add_ps(table, kSet[r], table, _mm512_set1_ps(step));
    } else {
      const hn::RebindToUnsigned<FloatTag> du;
      const auto index =
          kBits == 2 && r == 1 ? hn::ShiftRight<2>(hn::Iota(du, 0)) : hn::Iota(du, 0);
      const auto code = hn::And(index, hn::Set(du, (1U << kBits) - 1U));
      const auto value =
          hn::ConvertTo(FloatTag(), hn::BitCast(hn::RebindToSigned<FloatTag>(), code));
      return _mm512_fmadd_ps(value.raw, _mm512_set1_ps(step), table);
    }
  }
  /// Swaps the bits of a outside `mask` with the bits of b inside it, kShift positions apart.
  template <int kShift>
  static HWY_INLINE void Exchange(int mask, __m512i& a, __m512i& b) {
    const __m512i select = _mm512_set1_epi32(mask);
    constexpr int kFirstIfMask = 0xca;
    const __m512i low =
        _mm512_ternarylogic_epi32(select, a, _mm512_slli_epi32(b, kShift), kFirstIfMask);
    b = _mm512_ternarylogic_epi32(select, _mm512_srli_epi32(a, kShift), b, kFirstIfMask);
    a = low;
  }

  __m512i words_[kRows];
  __m512 table_;
};

#else

#if HWY_TARGET <= HWY_AVX2

/// A register is a table of sums for all values of two bits: a code of 2 bits, or the codes of two
/// rows at 1 bit. Codes of 4 bits are converted and multiplied.
template <int kBits, int kLaneBits>
class CodeGroup {
 public:
  static constexpr int kRows = kBits == 1 ? 2 : 1;

  HWY_INLINE CodeGroup(const std::byte* const* codes, const float* steps, std::size_t lane) {
    for (int r = 0; r < kRows; ++r) words_[r] = LaneWords<kLaneBits>(codes[r], lane).raw;
    if constexpr (kBits == 1) {
      const float both = steps[0] + steps[1];
      table_ = _mm256_setr_ps(0, steps[0], steps[1], both, 0, steps[0], steps[1], both);
      const __m256i even = _mm256_set1_epi32(0x55555555);
      const __m256i first =
          _mm256_or_si256(_mm256_and_si256(even, words_[0]),
                          _mm256_andnot_si256(even, _mm256_slli_epi32(words_[1], 1)));
      words_[1] = _mm256_or_si256(_mm256_and_si256(even, _mm256_srli_epi32(words_[0], 1)),
                                  _mm256_andnot_si256(even, words_[1]));
      words_[0] = first;
    } else {
      const __m256 codes_of_two_bits = _mm256_setr_ps(0, 1, 2, 3, 0, 1, 2, 3);
      table_ = kBits == 2 ? _mm256_mul_ps(codes_of_two_bits, _mm256_set1_ps(steps[0]))
                          : _mm256_set1_ps(steps[0]);
    }
  }

  template <int kVector>
  HWY_INLINE FloatVector Term(FloatTag d) const {
    if constexpr (kBits == 4) {
      const hn::Vec<hn::RebindToUnsigned<FloatTag> > word{words_[0]};
      return hn::Mul(LaneCodes<kBits>(d, word, kVector), FloatVector{table_});
    } else {
      const __m256i index = _mm256_srli_epi32(words_[kVector % kRows], kVector / kRows * 2);
      return FloatVector{_mm256_permutevar_ps(table_, index)};  // uses the low two bits
    }
  }

 private:
  __m256i words_[kRows];
  __m256 table_;
};

#else

/// Decodes one row at a time. Members are scalars, as vectors may have no size at compile time.
template <int kBits, int kLaneBits>
class CodeGroup {
 public:
  static constexpr int kRows = 1;

  HWY_INLINE CodeGroup(const std::byte* const* codes, const float* steps, std::size_t lane)
      : codes_(codes[0]), step_(steps[0]), lane_(lane) {}

  template <int kVector>
  HWY_INLINE FloatVector Term(FloatTag d) const {
    const auto words = LaneWords<kLaneBits>(codes_, lane_);
    const auto step = hn::Set(d, step_);
    if constexpr (kBits == 1) {
      const auto bit = hn::Set(hn::RebindToUnsigned<FloatTag>(), 1U << kVector);
      return hn::IfThenElseZero(hn::RebindMask(d, hn::TestBit(words, bit)), step);
    } else {
      return hn::Mul(LaneCodes<kBits>(d, words, kVector), step);
    }
  }

 private:
  const std::byte* codes_;
  float step_;
  std::size_t lane_;
};

#endif
#endif

}  // namespace heliograph::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
