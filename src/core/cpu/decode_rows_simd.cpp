// Decodes packed rows; compiled once for each Highway target.

#include "core/cpu/decode_rows.hpp"
#include "core/cpu/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/decode_rows_simd.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// after foreach_target
#include <hwy/highway.h>

#include <algorithm>

#include "core/cpu/packed_lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heliograph::HWY_NAMESPACE {

constexpr std::int64_t kGroup = 32;

template <int kBits>
HWY_INLINE FloatVector DecodeVector(FloatTag d, const std::byte* values, RowParameters p,
                                    std::size_t column) {
  if constexpr (kBits > 8) {
    (void)p;
    return PlainValues<kBits>(d, values, column);
  } else {
    const auto minimum = hn::Set(d, p.minimum);
    const auto step = hn::Set(d, p.step);
    if constexpr (kBits == 1) return hn::Add(minimum, SelectByBits(d, values, column, step));
    if constexpr (kBits > 1) {
      return hn::Add(minimum, hn::Mul(CodesAsFloat<kBits>(d, values, column), step));
    }
  }
}

template <int kBits>
void DecodeRange(const PackedRows& packed, const std::int32_t* nodes, MatrixView out,
                 std::int64_t begin, std::int64_t end) {
  const FloatTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t r = begin; r < end; ++r) {
    const std::int64_t node = nodes == nullptr ? r : nodes[r];
    if (node < 0) continue;
    const std::byte* row = packed.row(r);
    const RowParameters p = kBits > 8 ? RowParameters{0, 0} : read_parameters(row, packed.format);
    const std::byte* values = row + packed.format.parameter_bytes();
    float* to = out.row(node) + packed.col_begin;
    const auto block = [&](auto vectors, std::int64_t first, std::int64_t byte) HWY_ATTR {
      for (std::int64_t lane = 0; lane < 16; lane += lanes) {
        const auto words =
            LaneWords<vectors() * kBits>(values + byte, static_cast<std::size_t>(lane));
        for (int k = 0; k < vectors(); ++k) {
          const auto code = LaneCodes<kBits>(d, words, k);
          hn::StoreU(hn::Add(hn::Set(d, p.minimum), hn::Mul(code, hn::Set(d, p.step))), d,
                     to + first + 16 * k + lane);
        }
      }
    };
    std::int64_t c = ForCodeBlocks<kBits>(packed.cols, block);
    values += c * kBits / 8;
    for (; c + kGroup <= packed.cols; c += kGroup, values += 4 * kBits) {
      for (std::int64_t k = 0; k < kGroup; k += lanes) {
        hn::StoreU(DecodeVector<kBits>(d, values, p, static_cast<std::size_t>(k)), d, to + c + k);
      }
    }
    HWY_ALIGN float rest[16];
    for (std::int64_t k = 0; c < packed.cols; c += lanes, k += lanes) {
      hn::Store(DecodeVector<kBits>(d, values, p, static_cast<std::size_t>(k)), d, rest);
      std::copy_n(rest, std::min(lanes, packed.cols - c), to + c);
    }
  }
}

void DecodeRows(const PackedRows& packed, const std::int32_t* nodes, MatrixView out,
                std::int64_t begin, std::int64_t end) {
  switch (packed.format.bits) {
    case 1:
      return DecodeRange<1>(packed, nodes, out, begin, end);
    case 2:
      return DecodeRange<2>(packed, nodes, out, begin, end);
    case 4:
      return DecodeRange<4>(packed, nodes, out, begin, end);
    case 8:
      return DecodeRange<8>(packed, nodes, out, begin, end);
    case 16:
      return DecodeRange<16>(packed, nodes, out, begin, end);
    default:
      return DecodeRange<32>(packed, nodes, out, begin, end);
  }
}

}  // namespace heliograph::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heliograph {

HWY_EXPORT(DecodeRows);

void cpu::decode_rows(const PackedRows& packed, const std::int32_t* nodes, MatrixView out,
                      ThreadPool& threads) {
  const std::int64_t grain =
      std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, packed.cols));
  threads.for_ranges(packed.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (int g = 0; g < packed.format.coded_groups(); ++g) {
      HWY_DYNAMIC_DISPATCH(DecodeRows)
      (packed.format.is_codes() ? packed.group(g) : packed, nodes, out, begin, end);
    }
  });
}

}  // namespace heliograph
#endif
