#include <gtest/gtest.h>

#include "heliograph/error.hpp"
#include "quant/codec_rows.hpp"

namespace heliograph {
namespace {

constexpr std::uint64_t kGroupStream = stream_key(1, Purpose::rounding, {5}, 2);

RowFormat in_groups(RowFormat format, int groups, int exact_cols = 0) {
  format.groups = groups;
  format.exact_cols = exact_cols;
  return format;
}

TEST(Groups, ByHand) {
  ThreadPool threads(1);
  CodecCase c(1, 6, 1);
  const float row[6] = {0.0F, 15.0F, 9.0F, 30.0F, 0.0F, 2.0F};
  std::copy_n(row, 6, c.x.view().data);
  c.exact.view().data[0] = -2.0F;  // 0xc0000000
  const auto codec = make_cpu_codec({4, false, 1, 2});
  const auto bytes = c.encode(*codec, kGroupStream, threads);
  ASSERT_EQ(codec->encoded_bytes(1, 6), 12U);
  // The steps are 1 and 2: 0x3f800000 and 0x40000000, shifted right by 15.
  const int expected[12] = {0x00, 0x7f, 0xf0, 0x09, 0x00, 0x80, 0x0f, 0x01, 0x00, 0x00, 0x00, 0xc0};
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
}

TEST(Groups, EachIsARowOfItsColumns) {
  ThreadPool threads(2);
  for (const RowFormat one : all_formats()) {
    for (const std::int64_t width : {1, 7, 8, 16, 40, 64, 100}) {
      for (const int groups : {2, 3, 8}) {
        const RowFormat format = in_groups(one, groups, 3);
        const std::int64_t cols = groups * width;
        SCOPED_TRACE(name_of(format) + ", " + std::to_string(width) + " columns each");
        CodecCase c(9, cols, 3);
        fill(c.x, row_kinds()[1], 3);
        c.scale.assign(9, 0.37F);
        ASSERT_EQ(format.row_bytes(cols),
                  static_cast<std::size_t>(groups) * one.row_bytes(width) + 12);
        const auto bytes = c.encode(*make_reference_codec(format), kGroupStream, threads);
        const PackedRows packed = c.packed(bytes, format);
        const Matrix whole = decoded(packed);
        bool other_noise = false;
        for (int g = 0; g < groups; ++g) {
          const PackedRows group = packed.group(g);
          ASSERT_EQ(group.cols, width);
          ASSERT_EQ(group.col_begin, g * width);
          ASSERT_EQ(group.format, one);
          const Matrix values = decoded(group);
          std::vector<std::byte> alone(9 * one.row_bytes(width) + 64);
          make_reference_codec(one)->encode(c.x.view().col_range(g * width, width), c.selection(),
                                            kGroupStream, alone.data(), threads);
          const PackedRows rows{alone.data(), 9, width, 0, one};
          for (std::int64_t r = 0; r < 9; ++r) {
            const bool same = std::memcmp(group.row(r), rows.row(r), one.row_bytes(width)) == 0;
            other_noise = other_noise || !same;
            ASSERT_TRUE(same || (g > 0 && one.bits < 32)) << "group " << g << ", row " << r;
            ASSERT_EQ(0, std::memcmp(group.row(r), rows.row(r), one.parameter_bytes()));
            for (std::int64_t i = 0; i < width; ++i) {
              ASSERT_EQ(values.view().row(r)[i], whole.view().row(r)[g * width + i]);
            }
          }
        }
        EXPECT_TRUE(other_noise || width < 16 || one.bits == 32);
        for (std::int64_t r = 0; r < 9; ++r) {
          for (std::int64_t i = 0; i < 3; ++i) {
            ASSERT_EQ(packed.exact(r, i), c.exact.view().row(r)[i]);
          }
        }
        if (!one.is_codes()) {
          const auto plain =
              c.encode(*make_reference_codec(in_groups(one, 1, 3)), kGroupStream, threads);
          EXPECT_EQ(bytes, plain);
        }
        for_each_simd_target(
            [&] { ASSERT_EQ(c.encode(*make_cpu_codec(format), kGroupStream, threads), bytes); });
      }
    }
  }
}

// All groups hold the same values, so equal noise would show.
TEST(Groups, RoundUnbiasedAndIndependently) {
  constexpr std::int64_t kKeys = 20000, kWidth = 40;
  constexpr int kGroups = 3;
  ThreadPool threads(1);
  for (const RowFormat one : code_formats()) {
    const RowFormat format = in_groups(one, kGroups);
    SCOPED_TRACE(name_of(format));
    CodecCase c(kKeys, kGroups * kWidth);
    const auto top = static_cast<float>((1 << one.bits) - 1);
    for (std::int64_t r = 0; r < kKeys; ++r) {
      float* row = c.x.view().row(r);
      for (std::int64_t i = 0; i < kGroups * kWidth; ++i) {
        const std::int64_t at = i % kWidth;
        row[i] = at < 2 ? static_cast<float>(at) * top : 0.25F * static_cast<float>(1 + at % 3);
      }
    }
    const auto bytes = c.encode(*make_cpu_codec(format), kGroupStream, threads);
    const Matrix values = decoded(c.packed(bytes, format));
    for (std::int64_t i = 2; i < kWidth; ++i) {
      double sum[kGroups] = {}, both = 0, f[kGroups];
      for (int g = 0; g < kGroups; ++g) f[g] = c.x.view().data[g * kWidth + i];
      for (std::int64_t r = 0; r < kKeys; ++r) {
        const float* row = values.view().row(r) + i;
        for (int g = 0; g < kGroups; ++g) sum[g] += row[g * kWidth] - f[g];
        both += (row[0] - f[0]) * (row[2 * kWidth] - f[2]);
      }
      // Five deviations of a mean of 20,000 draws, whose deviation is at most half a step.
      for (int g = 0; g < kGroups; ++g) ASSERT_NEAR(sum[g] / kKeys, 0, 0.0177) << g << ' ' << i;
      ASSERT_NEAR(both / kKeys, 0, 0.0089) << i;
    }
  }
}

TEST(Groups, ErrorsNameTheColumnOfTheRow) {
  ThreadPool threads(2);
  for (const RowFormat one : all_formats()) {
    const RowFormat format = in_groups(one, 4, 2);
    SCOPED_TRACE(name_of(format));
    for (const auto& codec : {make_cpu_codec(format), make_reference_codec(format)}) {
      CodecCase c(900, 4 * 35, 2);
      fill(c.x, row_kinds()[1], 3);
      UnencodableRow failed;
      if (one.is_codes()) {
        c.x.view().row(890)[2 * 35 + 1] = 3e38F;
        c.x.view().row(890)[3 * 35] = 3e38F;
        c.x.view().row(890)[3 * 35 + 4] = -3e38F;
        c.encode(*codec, kGroupStream, threads, &failed);
        EXPECT_EQ(failed.row, 890);
        EXPECT_EQ(failed.col, -1);
        const float value = one.has_minimum ? std::numeric_limits<float>::infinity() : -3e38F;
        EXPECT_EQ(failed.value, value);
      }
      c.exact.view().row(880)[1] = std::nanf("");
      c.encode(*codec, kGroupStream, threads, &failed);
      EXPECT_EQ(failed.row, 880);
      EXPECT_EQ(failed.col, 4 * 35 + 1);
      c.x.view().row(880)[2 * 35 + 34] = std::nanf("");
      c.encode(*codec, kGroupStream, threads, &failed);
      EXPECT_EQ(failed.row, 880);
      EXPECT_EQ(failed.col, 2 * 35 + 34);
    }
  }
}

TEST(Groups, ANumberBelowOneIsRefused) { EXPECT_THROW(make_cpu_codec({1, true, 0, 0}), Error); }

}  // namespace
}  // namespace heliograph
