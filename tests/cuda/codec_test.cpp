#include "quant/codec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "cuda/device_arrays.hpp"
#include "cuda/row_sizes.hpp"
#include "heliograph/error.hpp"
#include "quant/codec_rows.hpp"

namespace heliograph {
namespace {

constexpr std::uint64_t kStream =
    stream_key(1, Purpose::rounding, {5}, site_key(2, Direction::backward));
constexpr std::byte kUntouched{0xa5};

class CodecTwin : public TwinTest {
 protected:
  /// A message on the device, with `shift` bytes before the encoded rows and 64 behind them.
  struct Message {
    UnencodableRow failed;
    std::vector<std::byte> bytes;
  };
  Message encode(const Codec& codec, const CodecCase& c, std::size_t shift = 0,
                 const std::vector<std::int32_t>* positions = nullptr, std::int64_t out_rows = -1) {
    const std::int64_t rows = out_rows < 0 ? static_cast<std::int64_t>(c.rows.size()) : out_rows;
    const auto x = on_device(c.x);
    const auto exact = on_device(c.exact);
    const auto selected = on_device(c.rows);
    const auto ids = on_device(c.ids);
    const auto scale = on_device(c.scale);
    const auto bits = on_device(c.bits);
    const auto places = on_device(positions == nullptr ? std::vector<std::int32_t>() : *positions);
    const auto out = on_device(std::vector<std::byte>(
        shift + codec.encoded_bytes(rows, c.x.view().cols) + 64, kUntouched));
    const RowSelection selection{{selected.data(), c.rows.size()},
                                 c.scale.empty() ? nullptr : scale.data(),
                                 ids.data(),
                                 positions == nullptr ? nullptr : places.data(),
                                 exact.view(),
                                 nullptr,
                                 c.bits.empty() ? nullptr : bits.data()};
    Message message;
    message.failed =
        codec.encode(x.view(), selection, kStream, out.data() + shift, cuda->device().threads());
    message.bytes = out.values();
    return message;
  }

  /// Checks that the bytes are those of the definition and that no other byte was written.
  void check(const Codec& codec, const CodecCase& c, std::size_t shift = 0) {
    const auto reference = make_reference_codec(codec.format());
    UnencodableRow failed;
    const auto expected = c.encode(*reference, kStream, cpu->device().threads(), &failed);
    const Message actual = encode(codec, c, shift);
    ASSERT_EQ(actual.failed.row, failed.row);
    ASSERT_EQ(actual.failed.col, failed.col);
    if (failed.row >= 0) {
      ASSERT_EQ(0, std::memcmp(&actual.failed.value, &failed.value, 4));
      return;  // what the message holds is not defined
    }
    for (std::size_t i = 0; i < actual.bytes.size(); ++i) {
      const std::byte want = i < shift ? kUntouched : expected[i - shift];
      ASSERT_EQ(actual.bytes[i], want) << "byte " << i;
    }
  }
};

TEST_F(CodecTwin, WritesTheBytesOfTheDefinition) {
  for (const RowFormat format : all_formats()) {
    SCOPED_TRACE(name_of(format));
    const auto codec = make_cuda_codec(format, cuda->device());
    for_row_sizes([&](std::int64_t rows, std::int64_t cols) {
      CodecCase c(rows, cols);
      fill(c.x, row_kinds()[format.has_minimum ? 0 : 1], static_cast<std::uint32_t>(cols));
      std::reverse(c.rows.begin(), c.rows.end());
      if (cols % 2 == 1) {
        c.scale.resize(static_cast<std::size_t>(rows));
        for (std::size_t i = 0; i < c.scale.size(); ++i) {
          c.scale[i] = 0.37F * static_cast<float>(i % 5);
        }
      }
      if (format.bits == 4 && cols % 3 == 0) {
        for (std::int64_t r = 0; r < rows; ++r) {
          c.bits.push_back(static_cast<std::uint8_t>(1 << r % 3));
        }
      }
      check(*codec, c);
    });
  }
}

TEST_F(CodecTwin, WritesTheBytesOfTheDefinitionForEveryKindOfRow) {
  const auto kinds = row_kinds();
  const auto rows = static_cast<std::int64_t>(kinds.size()) * 2;
  for (const RowFormat format : all_formats()) {
    const auto codec = make_cuda_codec(format, cuda->device());
    const auto reference = make_reference_codec(format);
    for (const std::int64_t cols : kWidths) {
      SCOPED_TRACE(::testing::Message() << name_of(format) << ", " << cols << " columns");
      CodecCase c(rows, cols);
      // Each kind twice, the second time times 0.37. A format without minimum leaves out the kinds
      // that are negative.
      std::vector<std::int32_t> encodable;
      std::mt19937 random(5);
      c.scale.assign(static_cast<std::size_t>(rows), 1.0F);
      for (std::int64_t r = 0; r < rows; ++r) {
        if (r % 2 == 1) c.scale[static_cast<std::size_t>(r)] = 0.37F;
        for (std::int64_t col = 0; col < cols; ++col) {
          c.x.view().row(r)[col] = kinds[static_cast<std::size_t>(r / 2)].value(random, col);
        }
        c.rows = {static_cast<std::int32_t>(r)};
        UnencodableRow failed;
        c.encode(*reference, kStream, cpu->device().threads(), &failed);
        if (failed.row < 0) encodable.push_back(c.rows[0]);
      }
      c.rows = encodable;
      ASSERT_GE(c.rows.size(), 12U);
      check(*codec, c);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CodecTwin, RowsMayBeginAtAnyByte) {
  for (const RowFormat format : all_formats()) {
    const auto codec = make_cuda_codec(format, cuda->device());
    for (const std::int64_t cols : {3, 41, 130, 256, 300}) {
      for (const std::size_t shift : {1U, 2U, 3U, 4U, 6U, 8U}) {
        SCOPED_TRACE(::testing::Message()
                     << name_of(format) << ", " << cols << " columns, " << shift << " bytes on");
        CodecCase c(5, cols);
        fill(c.x, row_kinds()[1], static_cast<std::uint32_t>(cols));
        check(*codec, c, shift);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Parts of an exchange note the first such row of all.
TEST_F(CodecTwin, NotesWhichRowOfTheExchangeCannotBeEncoded) {
  MemoryAccount page_locked(cuda->device().page_locked());
  Buffer note(sizeof(std::int32_t), MemoryUse::workspace, &page_locked);
  const auto codec = make_cuda_codec({4, true, 2}, cuda->device());
  for (const bool in_exact : {false, true}) {
    CodecCase c(5, 8, 2);
    fill(c.x, row_kinds()[1], 7);
    (in_exact ? c.exact : c.x).view().row(3)[1] = std::numeric_limits<float>::quiet_NaN();
    const auto x = on_device(c.x), exact = on_device(c.exact);
    const auto rows = on_device(c.rows);
    const auto ids = on_device(c.ids);
    const auto out = on_device(std::vector<std::byte>(codec->encoded_bytes(5, 8) + 64));
    note.as<std::int32_t>()[0] = 0;
    for (const std::int64_t first : {100, 7, 40}) {
      RowSelection selection{{rows.data(), 5}, nullptr,      ids.data(),
                             nullptr,          exact.view(), note.as<std::int32_t>().data()};
      selection.first = first;
      codec->encode(x.view(), selection, kStream, out.data(), cuda->device().threads());
    }
    cuda->device().finish();
    EXPECT_EQ(note.as<std::int32_t>()[0], 7 + 3 - kNoFailedRow) << in_exact;
  }
}

TEST_F(CodecTwin, ReadsColumnRanges) {
  for (const RowFormat format : all_formats()) {
    const auto codec = make_cuda_codec(format, cuda->device());
    const auto reference = make_reference_codec(format);
    for (const std::int64_t cols : {1, 47, 256, 300}) {
      CodecCase c(4, cols + 9);
      fill(c.x, row_kinds()[1], 7);
      const auto x = on_device(c.x);
      const auto selected = on_device(c.rows);
      const auto ids = on_device(c.ids);
      for (const std::int64_t from : {4, 5}) {
        SCOPED_TRACE(::testing::Message() << name_of(format) << ", " << cols << " from " << from);
        std::vector<std::byte> expected(codec->encoded_bytes(4, cols), kUntouched);
        ASSERT_EQ(reference
                      ->encode(c.x.view().col_range(from, cols), c.selection(), kStream,
                               expected.data(), cpu->device().threads())
                      .row,
                  -1);
        const auto out = on_device(std::vector<std::byte>(expected.size(), kUntouched));
        ASSERT_EQ(codec
                      ->encode(x.view().col_range(from, cols),
                               {{selected.data(), 4}, nullptr, ids.data()}, kStream, out.data(),
                               cuda->device().threads())
                      .row,
                  -1);
        ASSERT_EQ(out.values(), expected);
      }
    }
  }
}

TEST_F(CodecTwin, RowsGoWhereTheyAreSentAndNothingElseIsWritten) {
  const std::vector<std::int32_t> positions = {9, 0, 6, 2, 4};
  for (const RowFormat format : all_formats()) {
    const auto codec = make_cuda_codec(format, cuda->device());
    for (const std::int64_t cols : {1, 31, 33, 64, 100, 257}) {
      SCOPED_TRACE(::testing::Message() << name_of(format) << ", " << cols << " columns");
      CodecCase c(12, cols);
      fill(c.x, row_kinds()[1], 3);
      c.rows = {1, 4, 5, 11, 7};
      const auto in_order =
          c.encode(*make_reference_codec(format), kStream, cpu->device().threads());
      const std::size_t row_bytes = format.row_bytes(cols);
      std::vector<std::byte> expected(10 * row_bytes + 64, kUntouched);
      for (std::size_t i = 0; i < positions.size(); ++i) {
        std::memcpy(expected.data() + static_cast<std::size_t>(positions[i]) * row_bytes,
                    in_order.data() + i * row_bytes, row_bytes);
      }
      const Message actual = encode(*codec, c, 0, &positions, 10);
      ASSERT_EQ(actual.failed.row, -1);
      ASSERT_EQ(actual.bytes, expected);
    }
  }
}

TEST_F(CodecTwin, NamesTheFirstRowThatCannotBeEncoded) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const RowFormat format : all_formats()) {
    const auto codec = make_cuda_codec(format, cuda->device());
    for (const std::int64_t cols : {5, 130, 300}) {
      SCOPED_TRACE(::testing::Message() << name_of(format) << ", " << cols << " columns");
      CodecCase c(257, cols);
      fill(c.x, row_kinds()[1], 3);
      std::reverse(c.rows.begin(), c.rows.end());
      check(*codec, c);  // All rows can be encoded.
      c.x.view().row(20)[cols - 1] = std::nanf("");
      check(*codec, c);
      c.x.view().row(100)[cols / 2] = -kInf;
      c.x.view().row(100)[cols - 1] = kInf;
      check(*codec, c);
      c.scale.assign(257, 1.0F);
      c.scale[200] = 1e38F;
      c.x.view().row(200)[2] = 1e3F;  // infinite once it is scaled
      check(*codec, c);
      c.x.view().row(210)[0] = 3e38F;  // a range beyond the wire format, or a negative value
      c.x.view().row(210)[1] = -3e38F;
      check(*codec, c);
      c.scale.clear();
      fill(c.x, row_kinds()[1], 4);
      check(*codec, c);  // An earlier failure has no effect.
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CodecTwin, GroupsHaveTheBytesOfTheDefinition) {
  for (RowFormat format : all_formats()) {
    format.groups = 3;
    format.exact_cols = 2;
    const auto codec = make_cuda_codec(format, cuda->device());
    for (const std::int64_t width : {1, 7, 8, 16, 40, 64, 100}) {
      SCOPED_TRACE(::testing::Message() << name_of(format) << ", " << width << " columns each");
      CodecCase c(33, 3 * width, 2);
      fill(c.x, row_kinds()[1], 3);
      c.scale.assign(33, 0.5F);
      std::reverse(c.rows.begin(), c.rows.end());
      check(*codec, c);
      c.x.view().row(9)[2 * width] = std::nanf("");
      check(*codec, c);
      c.scale[20] = 1;
      c.x.view().row(20)[3 * width - 1] = 3e38F;  // a range beyond the wire format, if width > 1
      c.x.view().row(20)[2 * width] = -3e38F;
      check(*codec, c);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CodecTwin, ExactColumnsLieBehindTheCodes) {
  for (RowFormat format : all_formats()) {
    format.exact_cols = 3;
    const auto codec = make_cuda_codec(format, cuda->device());
    for (const std::int64_t cols : {0, 5, 130, 300}) {
      SCOPED_TRACE(::testing::Message() << name_of(format) << ", " << cols << " columns");
      CodecCase c(33, cols, 3);
      fill(c.x, row_kinds()[1], 3);
      c.scale.assign(33, 0.5F);
      std::reverse(c.rows.begin(), c.rows.end());
      for (const std::size_t shift : {0U, 1U, 4U}) check(*codec, c, shift);
      c.exact.view().row(9)[2] = std::numeric_limits<float>::infinity();
      c.exact.view().row(10)[1] = std::nanf("");
      check(*codec, c);
      if (cols > 0) c.x.view().row(10)[cols - 1] = std::nanf("");
      check(*codec, c);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(CodecTwin, WantsKernelsOfADevice) {
  EXPECT_THROW(make_cuda_codec({1, true}, cpu->device()), Error);
  EXPECT_THROW(make_codec({3, true}, cuda->device()), Error);
}

}  // namespace
}  // namespace heliograph
