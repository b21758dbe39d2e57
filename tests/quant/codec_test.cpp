#include "quant/codec.hpp"

#include <gtest/gtest.h>

#include "heliograph/error.hpp"
#include "quant/codec_rows.hpp"
#include "support/expect_error.hpp"

namespace heliograph {
namespace {

constexpr std::uint64_t kStream =
    stream_key(1, Purpose::rounding, {5}, site_key(2, Direction::forward));

TEST(Codec, RefusesOtherBits) {
  for (const int bits : {0, 3, 5, 24, 64, -1}) {
    EXPECT_THROW(make_cpu_codec({bits, true}), Error) << bits;
    EXPECT_THROW(make_reference_codec({bits, true}), Error) << bits;
  }
}

TEST(Codec, CudaIsRefusedWhereItIsNotBuilt) {
  Device device(1);
  test::expect_error(ErrorCode::usage, "", [&] { make_cuda_codec({1, true}, device); });
}

TEST(Codec, OneBitByHand) {
  // Every value is the minimum or the maximum, so that no noise enters: 0.5, 2.5 and a step of 2.
  ThreadPool threads(1);
  CodecCase c(1, 10);
  const float row[10] = {0.5F, 2.5F, 2.5F, 0.5F, 0.5F, 0.5F, 0.5F, 2.5F, 0.5F, 2.5F};
  std::copy_n(row, 10, c.x.view().data);
  const auto codec = make_cpu_codec({1, true});
  auto bytes = c.encode(*codec, kStream, threads);
  bytes.resize(codec->encoded_bytes(1, 10));
  // bf16 0.5 = 0x3f00; step 2.0 = 0x40000000 >> 15 = 0x8000; columns 1, 2, 7, then 9.
  const std::vector<int> expected = {0x00, 0x3f, 0x00, 0x80, 0b10000110, 0b10};
  ASSERT_EQ(bytes.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
  }
}

TEST(Codec, OneBitBlocksByHand) {
  // 130 columns: a block of 16 lanes of 8 bits, then two columns in order. Set: columns 0 (lane 0,
  // bit 0), 17 (lane 1, bit 1), 127 (lane 15, bit 7), 129 (second column behind the block).
  ThreadPool threads(1);
  CodecCase c(1, 130);
  std::fill_n(c.x.view().data, 130, 0.0F);
  for (const std::int64_t column : {0, 17, 127, 129}) c.x.view().data[column] = 1.0F;
  const auto codec = make_cpu_codec({1, false});
  const auto bytes = c.encode(*codec, kStream, threads);
  std::vector<int> expected(2 + 17, 0);  // step 1.0 = 0x7f00
  expected[1] = 0x7f;
  expected[2] = 0b1;
  expected[3] = 0b10;
  expected[17] = 0b10000000;
  expected[18] = 0b10;
  ASSERT_EQ(codec->encoded_bytes(1, 130), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
  }
}

TEST(Codec, CodesFillTheirBytes) {
  for (const int bits : {1, 2, 4, 8}) {
    for (std::int64_t cols = 0; cols < 700; ++cols) {
      std::vector<bool> taken(static_cast<std::size_t>(cols * bits), false);
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::int64_t bit = code_bit(bits, cols, c);
        ASSERT_EQ(bit % bits, 0);
        ASSERT_LT(bit, cols * bits) << bits << ' ' << cols << ' ' << c;
        ASSERT_FALSE(taken[static_cast<std::size_t>(bit)]) << bits << ' ' << cols << ' ' << c;
        taken[static_cast<std::size_t>(bit)] = true;
      }
    }
  }
}

TEST(Codec, FourBitsByHand) {
  ThreadPool threads(1);
  CodecCase c(1, 3);
  const float row[3] = {0.0F, 15.0F, 9.0F};
  std::copy_n(row, 3, c.x.view().data);
  const auto codec = make_cpu_codec({4, false});
  auto bytes = c.encode(*codec, kStream, threads);
  bytes.resize(codec->encoded_bytes(1, 3));
  const std::vector<int> expected = {0x00, 0x7f, 0xf0, 0x09};  // step 1.0 = 0x3f800000 >> 15
  ASSERT_EQ(bytes.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
  }
}

TEST(Codec, EveryTargetWritesTheBytesOfTheReference) {
  ThreadPool threads(1);
  std::vector<std::int64_t> widths(70);
  std::iota(widths.begin(), widths.end(), 1);
  widths.insert(widths.end(), {100, 128, 130, 160, 192, 256, 290, 384, 500, 602});
  for (const RowFormat format : all_formats()) {
    SCOPED_TRACE(name_of(format));
    const auto codec = make_cpu_codec(format);
    const auto reference = make_reference_codec(format);
    for (const RowKind& kind : row_kinds()) {
      SCOPED_TRACE(kind.name);
      for (const std::int64_t cols : widths) {
        CodecCase c(3, cols);
        fill(c.x, kind, static_cast<std::uint32_t>(cols));
        if (cols % 2 == 1) c.scale = {1.0F, 0.37F, 0.0F};
        UnencodableRow expected_failure;
        auto expected = c.encode(*reference, kStream, threads, &expected_failure);
        for_each_simd_target([&] {
          UnencodableRow failure;
          const auto bytes = c.encode(*codec, kStream, threads, &failure);
          ASSERT_EQ(failure.row, expected_failure.row) << cols;
          ASSERT_EQ(failure.col, expected_failure.col) << cols;
          if (failure.row >= 0) return;  // negative values where a minimum of 0 was promised
          ASSERT_EQ(bytes, expected) << cols;
        });
      }
    }
  }
}

TEST(Codec, ErrorIsBelowOneStep) {
  ThreadPool threads(1);
  for (const RowFormat format : code_formats()) {
    SCOPED_TRACE(name_of(format));
    const auto codec = make_cpu_codec(format);
    for (const RowKind& kind : row_kinds()) {
      SCOPED_TRACE(kind.name);
      CodecCase c(20, 133);
      fill(c.x, kind, 11);
      UnencodableRow failure;
      const auto bytes = c.encode(*codec, kStream, threads, &failure);
      if (!format.has_minimum && failure.row >= 0) continue;
      ASSERT_EQ(failure.row, -1);
      const PackedRows packed = c.packed(bytes, format);
      const Matrix values = decoded(packed);
      for (std::int64_t r = 0; r < 20; ++r) {
        const float* x = c.x.view().row(r);
        const auto [lo, hi] = std::minmax_element(x, x + 133);
        const RowParameters p = read_parameters(packed.row(r), format);
        const double top = (1 << format.bits) - 1;
        const double low = format.has_minimum ? *lo : 0.0;
        // The range on the wire holds the row, and is not wider than the wire types make it: the
        // minimum by 2^-7 of itself, the step by 2^-8 of itself or up to 2^-126.
        EXPECT_LE(p.minimum, low);
        EXPECT_GE(p.minimum, low - std::abs(low) / 128 - 1e-40);
        EXPECT_GE(p.minimum + top * p.step, *hi);
        const double exact_step = (static_cast<double>(*hi) - p.minimum) / top;
        EXPECT_LE(p.step, std::max(exact_step * (1 + 1.0 / 256), 0x1p-126));
        for (std::int64_t i = 0; i < 133; ++i) {
          // fp32 rounding of the decoded value comes on top of the step.
          const double error = std::abs(static_cast<double>(values.view().row(r)[i]) - x[i]);
          ASSERT_LE(error, p.step * (1 + 0x1p-15) + std::abs(x[i]) * 0x1p-23) << i;
        }
      }
    }
  }
}

TEST(Codec, Bf16ErrorIsBelowOneUnit) {
  ThreadPool threads(1);
  const auto codec = make_cpu_codec({16, true});
  for (const RowKind& kind : row_kinds()) {
    SCOPED_TRACE(kind.name);
    CodecCase c(20, 133);
    fill(c.x, kind, 12);
    const auto bytes = c.encode(*codec, kStream, threads);
    const Matrix values = decoded(c.packed(bytes, {16, true}));
    for (std::int64_t r = 0; r < 20; ++r) {
      for (std::int64_t i = 0; i < 133; ++i) {
        const double x = c.x.view().row(r)[i];
        ASSERT_LE(std::abs(values.view().row(r)[i] - x), std::abs(x) / 128 + 0x1p-133);
      }
    }
  }
}

TEST(Codec, Fp32IsVerbatim) {
  ThreadPool threads(1);
  const auto codec = make_cpu_codec({32, true});
  for (const RowKind& kind : row_kinds()) {
    CodecCase c(5, 37);
    fill(c.x, kind, 13);
    const auto bytes = c.encode(*codec, kStream, threads);
    for (std::int64_t r = 0; r < 5; ++r) {
      EXPECT_EQ(0, std::memcmp(bytes.data() + r * 148, c.x.view().row(r), 148)) << kind.name;
    }
  }
}

TEST(Codec, RepresentableValuesNeverMove) {
  ThreadPool threads(1);
  for (const RowFormat format : code_formats()) {
    SCOPED_TRACE(name_of(format));
    const auto codec = make_cpu_codec(format);
    const int top = (1 << format.bits) - 1;
    // Steps with all 8 mantissa bits in use, where a product with the reciprocal rounds.
    for (const float step : {1.0F, 0x1.ep-3F, 0x1.47p0F, 0x1.29p5F, 0x1.ffp-20F, 0x1.01p-126F}) {
      SCOPED_TRACE(step);
      CodecCase c(200, top + 1);
      for (std::int64_t r = 0; r < 200; ++r) {
        for (int q = 0; q <= top; ++q) c.x.view().row(r)[q] = static_cast<float>(q) * step;
      }
      const auto bytes = c.encode(*codec, kStream, threads);
      const PackedRows packed = c.packed(bytes, format);
      for (std::int64_t r = 0; r < 200; ++r) {
        ASSERT_EQ(read_parameters(packed.row(r), format).step, step);
        for (int q = 0; q <= top; ++q) {
          ASSERT_EQ(decode_value(packed.row(r), format, packed.cols, q), c.x.view().row(r)[q]) << q;
        }
      }
    }
  }
  const auto codec = make_cpu_codec({16, true});
  CodecCase c(1, 4);
  const float row[4] = {1.0F, -0x1.fep3F, 0x1p-133F, 3.3895314e38F};
  std::copy_n(row, 4, c.x.view().data);
  for (std::uint64_t stream = 0; stream < 200; ++stream) {
    const auto bytes = c.encode(*codec, stream, threads);
    for (int i = 0; i < 4; ++i) ASSERT_EQ(decode_value(bytes.data(), {16, true}, 4, i), row[i]);
  }
}

TEST(Codec, NamesTheFirstValueThatIsNotFinite) {
  ThreadPool threads(2);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const RowFormat format : all_formats()) {
    SCOPED_TRACE(name_of(format));
    for (const auto& codec : {make_cpu_codec(format), make_reference_codec(format)}) {
      for (const float bad : {kNan, -kNan, kInf, -kInf}) {
        for (const std::int64_t col : {0, 31, 32, 63, 64, 69}) {
          CodecCase c(300, 70);
          fill(c.x, row_kinds()[1], 3);
          std::reverse(c.rows.begin(), c.rows.end());
          c.x.view().row(280)[5] = bad;
          c.x.view().row(290)[col] = bad;  // comes first in the message
          c.x.view().row(290)[69] = bad;
          for_each_simd_target([&] {
            UnencodableRow failed;
            c.encode(*codec, kStream, threads, &failed);
            ASSERT_EQ(failed.row, 290);
            ASSERT_EQ(failed.col, col);
            if (std::isnan(bad)) {
              ASSERT_TRUE(std::isnan(failed.value));
            } else {
              ASSERT_EQ(failed.value, bad);
            }
          });
        }
      }
    }
  }
}

TEST(Codec, ScaleThatOverflowsIsNamed) {
  ThreadPool threads(1);
  CodecCase c(2, 3);
  c.scale = {1.0F, 1e38F};
  std::fill_n(c.x.view().row(1), 3, 100.0F);
  for (const RowFormat format : all_formats()) {
    UnencodableRow failed;
    c.encode(*make_cpu_codec(format), kStream, threads, &failed);
    EXPECT_EQ(failed.row, 1);
    EXPECT_EQ(failed.col, 0);
  }
}

TEST(Codec, RefusesRowsBeyondTheWireAndBrokenPromises) {
  ThreadPool threads(1);
  const auto failure = [&](RowFormat format, float lo, float hi) {
    CodecCase c(1, 2);
    c.x.view().data[0] = lo;
    c.x.view().data[1] = hi;
    UnencodableRow failed;
    c.encode(*make_cpu_codec(format), kStream, threads, &failed);
    return failed;
  };
  for (const RowFormat format : code_formats()) {
    SCOPED_TRACE(name_of(format));
    constexpr float kLargest = std::numeric_limits<float>::max();
    if (format.has_minimum) {
      EXPECT_EQ(failure(format, -kLargest, 0).row, 0);
      EXPECT_EQ(failure(format, -3e38F, 3e38F).row, 0);
      EXPECT_EQ(failure(format, -1.6e38F, 1.7e38F).row, -1);
      EXPECT_EQ(failure(format, -3.38e38F, 0).row, -1);
    } else {
      EXPECT_EQ(failure(format, -0x1p-149F, 1).row, 0);
      EXPECT_EQ(failure(format, -0x1p-149F, 1).col, -1);
      EXPECT_EQ(failure(format, -0.0F, 1).row, -1);
    }
    EXPECT_EQ(failure(format, 0, 3.38e38F).row, -1);
  }
  EXPECT_EQ(failure({1, true}, 0, std::numeric_limits<float>::max()).row, 0);
}

TEST(Codec, BytesDependOnTheNodeOnly) {
  // The same nodes in another order, from another matrix, with other threads: as another number of
  // ranks would send them.
  ThreadPool one(1);
  ThreadPool three(3);
  for (const RowFormat format : all_formats()) {
    SCOPED_TRACE(name_of(format));
    const auto codec = make_cpu_codec(format);
    CodecCase c(700, 47);
    fill(c.x, row_kinds()[1], 5);
    const auto whole = c.encode(*codec, kStream, one);
    EXPECT_EQ(whole, c.encode(*codec, kStream, three));
    CodecCase part(200, 47);
    for (std::int64_t r = 0; r < 200; ++r) {
      const std::int64_t source = (r * 13 + 5) % 700;
      std::copy_n(c.x.view().row(source), 47, part.x.view().row(r));
      part.ids[static_cast<std::size_t>(r)] = c.ids[static_cast<std::size_t>(source)];
    }
    const auto bytes = part.encode(*codec, kStream, three);
    for (std::int64_t r = 0; r < 200; ++r) {
      const std::int64_t source = (r * 13 + 5) % 700;
      ASSERT_EQ(0, std::memcmp(part.packed(bytes, format).row(r),
                               c.packed(whole, format).row(source), format.row_bytes(47)));
    }
  }
}

TEST(Codec, SizesFromNothing) {
  ThreadPool threads(2);
  for (const RowFormat format : all_formats()) {
    const auto codec = make_cpu_codec(format);
    const auto reference = make_reference_codec(format);
    for (const std::int64_t rows : {0, 1, 31, 33, 257}) {
      for (const std::int64_t cols : {0, 1, 31, 33, 257}) {
        CodecCase c(rows, cols);
        fill(c.x, row_kinds()[1], 6);
        EXPECT_EQ(c.encode(*codec, kStream, threads), c.encode(*reference, kStream, threads))
            << name_of(format) << ' ' << rows << " x " << cols;
      }
    }
  }
}

TEST(Codec, ReadsColumnRanges) {
  ThreadPool threads(1);
  for (const RowFormat format : all_formats()) {
    SCOPED_TRACE(name_of(format));
    const auto codec = make_cpu_codec(format);
    CodecCase c(40, 30);
    fill(c.x, row_kinds()[1], 7);
    CodecCase alone(40, 17);  // Columns [3, 20) by themselves: aligned.
    for (std::int64_t r = 0; r < 40; ++r) {
      std::copy_n(c.x.view().row(r) + 3, 17, alone.x.view().row(r));
    }
    std::vector<std::byte> bytes(codec->encoded_bytes(40, 17)), expected(bytes.size());
    const ConstMatrixView x = c.x.view();
    ASSERT_EQ(codec->encode(x.col_range(3, 17), c.selection(), kStream, bytes.data(), threads).row,
              -1);
    codec->encode(alone.x.view(), c.selection(), kStream, expected.data(), threads);
    EXPECT_EQ(bytes, expected);
  }
}

}  // namespace
}  // namespace heliograph
