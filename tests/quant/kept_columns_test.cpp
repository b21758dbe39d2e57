#include "quant/kept_columns.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/kernels.hpp"
#include "quant/codec.hpp"
#include "support/simd_targets.hpp"

namespace heliograph {
namespace {

constexpr std::int64_t kMaskedRows = 9;
constexpr std::uint64_t kMaskStream = 77;
constexpr std::byte kFiller{0xa5};

std::vector<std::int64_t> nodes() {
  std::vector<std::int64_t> ids(kMaskedRows);
  std::iota(ids.begin(), ids.end(), 1000);
  return ids;
}

/// Arrays for ColumnMasks.
struct Masks {
  std::vector<std::int64_t> ids = nodes();
  std::vector<std::uint8_t> bits;
  std::vector<std::uint64_t> words;
  std::vector<std::int64_t> offsets;
  ColumnMasks m;

  Masks(std::int64_t cols, RowFormat format, bool narrow = false) {
    for (int r = 0; narrow && r < kMaskedRows; ++r) {
      bits.push_back(static_cast<std::uint8_t>(std::min(format.bits, 1 << r % 4)));
    }
    if (narrow) m.row_bits = bits.data();
    m.nodes = ids.data();
    m.cols = cols;
    m.format = format;
    words.assign(static_cast<std::size_t>(kMaskedRows * m.words()), ~std::uint64_t{0});
    offsets.assign(kMaskedRows + 1, 0);
    m.masks = words.data();
    m.offsets = offsets.data();
  }
};

template <class Body>
void for_formats(const Body& body) {
  for (const int bits : {1, 2, 4, 8, 16, 32}) {
    for (const bool minimum : {false, true}) {
      if (minimum && bits > 8) continue;
      for (const std::int64_t cols : {1, 7, 16, 31, 47, 64, 100, 128, 256, 300}) {
        for (const std::uint32_t threshold : {0U, 1U, 19661U, 32768U, 65535U}) {
          SCOPED_TRACE(::testing::Message() << bits << " bits, " << cols << " columns, minimum "
                                            << minimum << ", threshold " << threshold);
          body(RowFormat{bits, minimum}, cols, threshold);
        }
      }
    }
  }
}

TEST(KeptColumns, EveryTargetHasTheBitsOfTheDefinition) {
  for_formats([&](RowFormat format, std::int64_t cols, std::uint32_t threshold) {
    for (const bool narrow : {false, true}) {
      if (narrow && format.bits > 8) continue;
      Masks expected(cols, format, narrow);
      for (std::int64_t r = 0; r < kMaskedRows; ++r)
        draw_row(expected.m, threshold, kMaskStream, r);
      const std::size_t row_bytes = format.row_bytes(cols), packed_bytes = kMaskedRows * row_bytes;
      std::vector<std::byte> packed(packed_bytes + 64);
      for (std::size_t i = 0; i < packed.size(); ++i)
        packed[i] = static_cast<std::byte>(i * 37 + 11);
      std::vector<std::int64_t> at(kMaskedRows + 1, 0);
      std::partial_sum(expected.offsets.begin(), expected.offsets.end(), at.begin());
      const auto kept_bytes = static_cast<std::size_t>(at.back());
      std::vector<std::byte> kept(kept_bytes + 64, kFiller), back(packed_bytes + 64, kFiller);
      for (std::size_t r = 0; r < kMaskedRows; ++r) {
        const auto row = static_cast<std::int64_t>(r);
        compress_row(expected.m, row, packed.data() + r * row_bytes, kept.data() + at[r]);
      }
      EXPECT_EQ(kept[kept_bytes], kFiller);
      for (std::size_t r = 0; r < kMaskedRows; ++r) {
        const auto row = static_cast<std::int64_t>(r);
        expand_row(expected.m, row, kept.data() + at[r], back.data() + r * row_bytes);
      }
      EXPECT_EQ(back[packed_bytes], kFiller);
      for_each_simd_target([&] {
        Masks drawn(cols, format, narrow);
        draw_columns(drawn.m, threshold, kMaskStream, 0, kMaskedRows);
        EXPECT_EQ(drawn.words, expected.words);
        EXPECT_EQ(drawn.offsets, expected.offsets);
        drawn.offsets = at;
        drawn.m.offsets = drawn.offsets.data();
        std::vector<std::byte> out(kept.size(), kFiller), full(back.size(), kFiller);
        compress_columns(drawn.m, packed.data(), out.data(), 0, kMaskedRows);
        EXPECT_EQ(out, kept);
        expand_columns(drawn.m, out.data(), full.data(), 0, kMaskedRows);
        EXPECT_EQ(full, back);
      });
    }
  });
}

// Dropped elements are 0, which has code 0 in rows without a minimum, so nothing is lost.
TEST(KeptColumns, RowsAfterDropoutComeBackWhole) {
  const auto kernels = make_cpu_kernels(2, false, nullptr);
  std::vector<std::int32_t> rows(kMaskedRows);
  std::iota(rows.begin(), rows.end(), 0);
  const std::vector<std::int64_t> ids = nodes();
  for_formats([&](RowFormat format, std::int64_t cols, std::uint32_t threshold) {
    if (format.has_minimum) return;
    Matrix x(kMaskedRows, cols, MemoryUse::workspace, nullptr);
    std::int64_t bytes = 0;
    for (std::int64_t r = 0; r < kMaskedRows; ++r) {
      const std::uint64_t key = row_key(kMaskStream, static_cast<std::uint64_t>(1000 + r));
      std::int64_t kept = 0;
      for (std::int64_t c = 0; c < cols; ++c) {
        if (noise16(key, static_cast<std::uint32_t>(c)) < threshold) continue;
        x.view().row(r)[c] = static_cast<float>(1 + (r + 3 * c) % 17);
        ++kept;
      }
      bytes += (format.bits <= 8 ? 2 : 0) + (kept * format.bits + 7) / 8;
    }
    const auto codec = make_cpu_codec(format);
    std::vector<std::byte> packed(codec->encoded_bytes(kMaskedRows, cols) + 64);
    codec->encode(x.view(), {rows, nullptr, ids.data()}, 5, packed.data(),
                  kernels->device().threads());
    KeptColumns columns(ids, {0, 4, kMaskedRows}, cols, format, threshold > 0, 2, kernels->device(),
                        MemoryUse::halo, nullptr);
    columns.draw(6, threshold, kMaskStream);
    columns.draw(7, threshold, kMaskStream + 1);
    EXPECT_EQ(columns.offset(6, kMaskedRows), static_cast<std::size_t>(bytes));
    std::vector<std::byte> kept(static_cast<std::size_t>(bytes) + 64), back(packed.size());
    columns.compress(6, 4, kMaskedRows, packed.data(), kept.data());
    columns.compress(6, 0, 4, packed.data(), kept.data());
    columns.expand(6, kept.data(), back.data());
    EXPECT_EQ(back, packed);
  });
}

// Rows in the layout of more bits travel as many bytes as in their own, and stand for the same
// values.
TEST(KeptColumns, RowsOfFewerBitsHaveTheValuesOfTheirOwnFormat) {
  const auto kernels = make_cpu_kernels(2, false, nullptr);
  ThreadPool& threads = kernels->device().threads();
  const std::vector<std::int32_t> rows{0, 1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<std::int64_t> ids = nodes();
  const std::vector<std::uint8_t> bits{1, 2, 4, 4, 2, 1, 1, 4, 2};
  for (const bool minimum : {false, true}) {
    for (const std::int64_t cols : {1, 7, 33, 100, 128}) {
      SCOPED_TRACE(::testing::Message() << cols << " columns, minimum " << minimum);
      Matrix x(kMaskedRows, cols, MemoryUse::workspace, nullptr);
      for (std::int64_t r = 0; r < kMaskedRows; ++r) {
        for (std::int64_t c = 0; c < cols; ++c) {
          x.view().row(r)[c] = static_cast<float>((r * 31 + c * 17) % 101) / 7 - (minimum ? 5 : 0);
        }
      }
      const RowFormat layout{4, minimum};
      RowSelection selection{rows, nullptr, ids.data()};
      selection.bits = bits.data();
      std::vector<std::byte> packed(make_cpu_codec(layout)->encoded_bytes(kMaskedRows, cols) + 64);
      make_cpu_codec(layout)->encode(x.view(), selection, 5, packed.data(), threads);
      std::vector<std::byte> reference(packed.size());
      make_reference_codec(layout)->encode(x.view(), selection, 5, reference.data(), threads);
      EXPECT_EQ(packed, reference);

      KeptColumns columns(ids, {0, kMaskedRows}, cols, layout, false, 1, kernels->device(),
                          MemoryUse::halo, nullptr);
      columns.set_bits(bits);
      columns.draw(0, 0, kMaskStream);
      const std::size_t sent = columns.offset(0, kMaskedRows);
      std::vector<std::byte> wire(sent + 64), back(packed.size());
      columns.compress(0, 0, kMaskedRows, packed.data(), wire.data());
      columns.expand(0, wire.data(), back.data());

      std::size_t expected_bytes = 0;
      for (std::size_t r = 0; r < bits.size(); ++r) {
        const RowFormat own{bits[r], minimum};
        expected_bytes += own.row_bytes(cols);
        std::vector<std::byte> row(own.row_bytes(cols) + 64);
        const std::span<const std::int32_t> only(&rows[r], 1);
        make_cpu_codec(own)->encode(x.view(), {only, nullptr, ids.data()}, 5, row.data(), threads);
        for (std::int64_t c = 0; c < cols; ++c) {
          EXPECT_EQ(decode_value(back.data() + r * layout.row_bytes(cols), layout, cols, c),
                    decode_value(row.data(), own, cols, c));
        }
      }
      EXPECT_EQ(sent, expected_bytes);
    }
  }
}

}  // namespace
}  // namespace heliograph
