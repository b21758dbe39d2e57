#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "core/buffer.hpp"
#include "quant/codec.hpp"

namespace heliograph {
namespace {

TEST(CodecPositions, RowsGoWhereTheyAreSentAndNothingElseIsWritten) {
  constexpr std::int64_t kRows = 12;
  const std::vector<std::int32_t> rows = {1, 4, 5, 11, 7};
  const std::vector<std::int32_t> positions = {9, 0, 6, 2, 4};
  constexpr std::byte kUntouched{0xa5};
  std::vector<std::int64_t> ids(kRows);
  std::iota(ids.begin(), ids.end(), 100);
  ThreadPool threads(2);
  for (const int bits : {1, 2, 4, 8, 16, 32}) {
    for (const std::int64_t cols : {1, 31, 33, 64, 100, 257}) {
      Matrix x(kRows, cols, MemoryUse::workspace, nullptr);
      for (std::int64_t r = 0; r < kRows; ++r) {
        for (std::int64_t c = 0; c < cols; ++c) {
          x.view().row(r)[c] = static_cast<float>((r * 7 + c * 13) % 29);
        }
      }
      for (const auto& make : {make_cpu_codec, make_reference_codec}) {
        const auto codec = make({bits, bits <= 8});
        const std::size_t row_bytes = codec->format().row_bytes(cols);
        std::vector<std::byte> in_order(rows.size() * row_bytes), out(10 * row_bytes, kUntouched);
        codec->encode(x.view(), {rows, nullptr, ids.data()}, 3, in_order.data(), threads);
        codec->encode(x.view(), {rows, nullptr, ids.data(), positions.data()}, 3, out.data(),
                      threads);
        std::vector<std::byte> expected(10 * row_bytes, kUntouched);
        for (std::size_t i = 0; i < rows.size(); ++i) {
          std::memcpy(expected.data() + static_cast<std::size_t>(positions[i]) * row_bytes,
                      in_order.data() + i * row_bytes, row_bytes);
        }
        EXPECT_EQ(out, expected) << bits << " bits, " << cols << " columns";
      }
    }
  }
}

}  // namespace
}  // namespace heliograph
