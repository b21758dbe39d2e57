// Draws the masks of kept columns in the layout of packed rows, and moves their codes. Compiled
// once for each Highway target, with the bits of kept_row.hpp on each.

#include "core/cpu/simd_targets.hpp"
#include "quant/kept_columns.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kept_columns_simd.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// after foreach_target
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "quant/pack_codes-inl.hpp"
#include "quant/row_math.hpp"
#if HWY_ARCH_X86_64
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace heliograph::HWY_NAMESPACE {

#if HWY_ARCH_X86_64 && HWY_TARGET <= HWY_AVX2
/// MoveBits in one instruction (BMI2), which a function of every target calls.
struct TargetBits {
  static std::uint64_t gather(std::uint64_t x, std::uint64_t mask) { return _pext_u64(x, mask); }
  static std::uint64_t scatter(std::uint64_t x, std::uint64_t mask) { return _pdep_u64(x, mask); }
};
#else
using TargetBits = MoveBits;
#endif

template <int kBits>
HWY_INLINE void DrawMask(std::int64_t cols, std::uint32_t threshold, std::uint64_t key,
                         std::byte* out) {
  const hn::RebindToSigned<FloatTag> di;
  const int most_dropped = static_cast<int>(threshold) - 1;
  const auto kept = [=](std::size_t, WordVector noise) HWY_ATTR {
    const auto mask = hn::Gt(hn::BitCast(di, noise), hn::Set(di, most_dropped));
    if constexpr (kBits == 1) {
      return hn::RebindMask(FloatTag(), mask);
    } else {
      return hn::BitCast(WordTag(), hn::IfThenElseZero(mask, hn::Set(di, (1 << kBits) - 1)));
    }
  };
  const auto block = [&](auto vectors, std::int64_t first, std::int64_t byte) HWY_ATTR {
    PackBlock<kBits, vectors()>(key, first / kSpan, kept, out + byte);
  };
  for (std::int64_t first = ForCodeBlocks<kBits>(cols, block); first < cols; first += kSpan) {
    std::byte span[4 * kBits];
    PackSpan<kBits>(key, first / kSpan, kept, span);
    const std::int64_t bits = std::min(kSpan, cols - first) * kBits;
    std::byte* to = out + first * kBits / 8;
    std::memcpy(to, span, static_cast<std::size_t>((bits + 7) / 8));
    if (bits % 8 != 0) to[bits / 8] &= static_cast<std::byte>((1 << bits % 8) - 1);
  }
}

template <int kBits>
void DrawRows(const ColumnMasks& m, std::uint32_t threshold, std::uint64_t stream,
              std::int64_t begin, std::int64_t end) {
  const std::int64_t words = m.words();
  for (std::int64_t r = begin; r < end; ++r) {
    if (m.keeps_all) {
      draw_row(m, threshold, stream, r);
      continue;
    }
    std::uint64_t* mask = m.mask(r);
    mask[words - 1] = 0;
    DrawMask<kBits>(m.cols, threshold, m.key(stream, r), reinterpret_cast<std::byte*>(mask));
    // In each column, the lowest bits only.
    const std::uint64_t bits = ~std::uint64_t{0} / max_code(kBits) * max_code(m.column_bits(r));
    for (std::int64_t w = 0; w < words; ++w) mask[w] &= bits;
    std::int64_t kept = 0;
    for (std::int64_t w = 0; w < words; ++w) kept += std::popcount(mask[w]);
    m.offsets[r + 1] = m.bytes_of(kept);
  }
}

void Draw(const ColumnMasks& m, std::uint32_t threshold, std::uint64_t stream, std::int64_t begin,
          std::int64_t end) {
  switch (m.mask_bits()) {
    case 1:
      return DrawRows<1>(m, threshold, stream, begin, end);
    case 2:
      return DrawRows<2>(m, threshold, stream, begin, end);
    case 4:
      return DrawRows<4>(m, threshold, stream, begin, end);
    default:
      return DrawRows<8>(m, threshold, stream, begin, end);
  }
}

void Compress(const ColumnMasks& m, const std::byte* packed, std::byte* out, std::int64_t begin,
              std::int64_t end) {
  const auto row_bytes = static_cast<std::int64_t>(m.format.row_bytes(m.cols));
  for (std::int64_t r = begin; r < end; ++r) {
    compress_row<TargetBits>(m, r, packed + r * row_bytes, out + m.offsets[r]);
  }
}

void Expand(const ColumnMasks& m, const std::byte* kept, std::byte* packed, std::int64_t begin,
            std::int64_t end) {
  const auto row_bytes = static_cast<std::int64_t>(m.format.row_bytes(m.cols));
  for (std::int64_t r = begin; r < end; ++r) {
    expand_row<TargetBits>(m, r, kept + m.offsets[r], packed + r * row_bytes);
  }
}

}  // namespace heliograph::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heliograph {

HWY_EXPORT(Draw);
HWY_EXPORT(Compress);
HWY_EXPORT(Expand);

void draw_columns(const ColumnMasks& m, std::uint32_t threshold, std::uint64_t stream,
                  std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(Draw)(m, threshold, stream, begin, end);
}

void compress_columns(const ColumnMasks& m, const std::byte* packed, std::byte* out,
                      std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(Compress)(m, packed, out, begin, end);
}

void expand_columns(const ColumnMasks& m, const std::byte* kept, std::byte* packed,
                    std::int64_t begin, std::int64_t end) {
  HWY_DYNAMIC_DISPATCH(Expand)(m, kept, packed, begin, end);
}

}  // namespace heliograph
#endif
