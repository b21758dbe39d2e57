#include <gtest/gtest.h>

#include "quant/codec_rows.hpp"

namespace heliograph {
namespace {

constexpr std::uint64_t kExactStream = stream_key(1, Purpose::rounding, {5}, 2);
constexpr std::int64_t kExact = 3;

RowFormat with_exact(RowFormat format) {
  format.exact_cols = kExact;
  return format;
}

TEST(ExactColumns, ByHand) {
  ThreadPool threads(1);
  CodecCase c(1, 3, 1);
  const float row[3] = {0.0F, 15.0F, 9.0F};
  std::copy_n(row, 3, c.x.view().data);
  c.exact.view().data[0] = -2.0F;  // 0xc0000000
  c.scale = {1.0F};
  const auto codec = make_cpu_codec({4, false, 1});
  auto bytes = c.encode(*codec, kExactStream, threads);
  ASSERT_EQ(codec->encoded_bytes(1, 3), 8U);
  const int expected[8] = {0x00, 0x7f, 0xf0, 0x09, 0x00, 0x00, 0x00, 0xc0};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
}

TEST(ExactColumns, LieBehindTheBytesOfARowWithoutThem) {
  ThreadPool threads(2);
  for (const RowFormat plain : all_formats()) {
    const RowFormat format = with_exact(plain);
    for (const std::int64_t cols : {0, 1, 7, 33, 64, 130, 301}) {
      SCOPED_TRACE(name_of(format) + ", " + std::to_string(cols) + " columns");
      CodecCase c(40, cols, kExact);
      fill(c.x, row_kinds()[1], 3);
      c.scale.assign(40, 0.37F);
      std::reverse(c.rows.begin(), c.rows.end());
      const auto without = c.encode(*make_cpu_codec(plain), kExactStream, threads);
      const Matrix values = decoded(c.packed(without, plain));
      ASSERT_EQ(format.row_bytes(cols), plain.row_bytes(cols) + 12);
      const auto check = [&](const Codec& codec) {
        const auto bytes = c.encode(codec, kExactStream, threads);
        const PackedRows packed = c.packed(bytes, format);
        const Matrix out = decoded(packed);
        for (std::int64_t r = 0; r < 40; ++r) {
          ASSERT_EQ(0, std::memcmp(packed.row(r), c.packed(without, plain).row(r),
                                   plain.row_bytes(cols)));
          for (std::int64_t i = 0; i < cols; ++i) {
            ASSERT_EQ(out.view().row(r)[i], values.view().row(r)[i]);
          }
          for (std::int64_t i = 0; i < kExact; ++i) {
            ASSERT_EQ(packed.exact(r, i), c.exact.view().row(39 - r)[i]);
          }
        }
      };
      check(*make_reference_codec(format));
      for_each_simd_target([&] { check(*make_cpu_codec(format)); });
    }
  }
}

TEST(ExactColumns, NameTheFirstValueThatIsNotFinite) {
  ThreadPool threads(2);
  for (const RowFormat plain : all_formats()) {
    const auto codec = make_cpu_codec(with_exact(plain));
    SCOPED_TRACE(name_of(codec->format()));
    CodecCase c(900, 70, kExact);
    fill(c.x, row_kinds()[1], 3);
    c.x.view().row(890)[5] = std::nanf("");
    c.exact.view().row(880)[2] = -std::numeric_limits<float>::infinity();
    UnencodableRow failed;
    c.encode(*codec, kExactStream, threads, &failed);
    EXPECT_EQ(failed.row, 880);
    EXPECT_EQ(failed.col, 72);
    EXPECT_EQ(failed.value, -std::numeric_limits<float>::infinity());
    c.exact.view().row(880)[0] = std::nanf("");
    c.encode(*codec, kExactStream, threads, &failed);
    EXPECT_EQ(failed.col, 70);
    EXPECT_TRUE(std::isnan(failed.value));
    c.x.view().row(880)[69] = std::nanf("");
    c.encode(*codec, kExactStream, threads, &failed);
    EXPECT_EQ(failed.col, 69);
  }
}

}  // namespace
}  // namespace heliograph
