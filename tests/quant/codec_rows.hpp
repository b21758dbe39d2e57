#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "quant/codec.hpp"
#include "support/decoded.hpp"
#include "support/simd_targets.hpp"

namespace heliograph {

/// A matrix with global ids, and its encoded rows.
struct CodecCase {
  Matrix x;
  Matrix exact;
  std::vector<std::int32_t> rows;
  std::vector<std::int64_t> ids;
  std::vector<float> scale;        ///< Empty if rows are not scaled.
  std::vector<std::uint8_t> bits;  ///< Empty if all rows have those of the format.

  CodecCase(std::int64_t count, std::int64_t cols, std::int64_t exact_cols = 0)
      : x(count, cols, MemoryUse::workspace, nullptr),
        exact(count, exact_cols, MemoryUse::workspace, nullptr),
        rows(static_cast<std::size_t>(count)),
        ids(static_cast<std::size_t>(count)) {
    std::iota(rows.begin(), rows.end(), 0);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i) * 7 + 3;
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t c = 0; c < exact_cols; ++c) {
        exact.view().row(r)[c] = std::sin(static_cast<float>(100 * r + c));
      }
    }
  }

  RowSelection selection() const {
    return {rows,    scale.empty() ? nullptr : scale.data(), ids.data(), nullptr, exact.view(),
            nullptr, bits.empty() ? nullptr : bits.data()};
  }

  /// The bytes of the message. Fails the test if the bytes behind it were written.
  std::vector<std::byte> encode(const Codec& codec, std::uint64_t stream, ThreadPool& threads,
                                UnencodableRow* failed = nullptr) const {
    const std::size_t bytes =
        codec.encoded_bytes(static_cast<std::int64_t>(rows.size()), x.view().cols);
    std::vector<std::byte> out(bytes + 64, std::byte{0xa5});
    const UnencodableRow bad = codec.encode(x.view(), selection(), stream, out.data(), threads);
    if (failed != nullptr) {
      *failed = bad;
    } else {
      EXPECT_EQ(bad.row, -1);
    }
    for (std::size_t i = bytes; i < out.size(); ++i) EXPECT_EQ(out[i], std::byte{0xa5}) << i;
    return out;  // the tail stays: readers may read up to 64 bytes past the last row
  }

  PackedRows packed(const std::vector<std::byte>& bytes, RowFormat format) const {
    return {bytes.data(), static_cast<std::int64_t>(rows.size()), x.view().cols, 0, format};
  }
};

/// A kind of row that occurs in training or in a user's features.
struct RowKind {
  const char* name;
  std::function<float(std::mt19937&, std::int64_t)> value;
};

inline std::vector<RowKind> row_kinds() {
  using Uniform = std::uniform_real_distribution<float>;
  return {
      {"normal", [](auto& r, auto) { return std::normal_distribution<float>()(r); }},
      {"relu", [](auto& r, auto) { return std::max(0.0F, std::normal_distribution<float>()(r)); }},
      {"constant bf16", [](auto&, auto) { return -1.5F; }},
      {"constant", [](auto&, auto) { return 0.1F; }},
      {"zero", [](auto&, auto) { return 0.0F; }},
      {"negative zero", [](auto&, auto c) { return c % 2 == 0 ? -0.0F : 0.0F; }},
      {"negative", [](auto& r, auto) { return Uniform(-3.0F, -2.0F)(r); }},
      {"subnormal", [](auto& r, auto) { return Uniform(0.0F, 1.0F)(r) * 1e-39F; }},
      {"around the smallest step", [](auto& r, auto) { return Uniform(-2.0F, 2.0F)(r) * 1e-37F; }},
      {"huge", [](auto& r, auto) { return Uniform(-1.6e38F, 1.6e38F)(r); }},
      {"far from zero", [](auto& r, auto) { return 100000.0F + Uniform(0.0F, 1.0F)(r); }},
      {"far below zero", [](auto& r, auto) { return -100000.0F + Uniform(0.0F, 1.0F)(r); }},
      {"one spike", [](auto& r, auto c) { return c == 0 ? 1e6F : Uniform(0.0F, 1e-6F)(r); }},
  };
}

inline void fill(const Matrix& x, const RowKind& kind, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (std::int64_t r = 0; r < x.view().rows; ++r) {
    for (std::int64_t c = 0; c < x.view().cols; ++c) x.view().row(r)[c] = kind.value(random, c);
  }
}

inline std::vector<RowFormat> all_formats() {
  return {{1, true},  {1, false}, {2, true},  {2, false}, {4, true},
          {4, false}, {8, true},  {8, false}, {16, true}, {32, true}};
}

inline std::vector<RowFormat> code_formats() {
  std::vector<RowFormat> formats = all_formats();
  std::erase_if(formats, [](RowFormat f) { return !f.is_codes(); });
  return formats;
}

inline std::string name_of(RowFormat format) {
  return std::to_string(format.bits) + " bits" + (format.has_minimum ? "" : ", no minimum") +
         (format.groups == 1 ? "" : ", " + std::to_string(format.groups) + " groups") +
         (format.exact_cols == 0 ? "" : ", " + std::to_string(format.exact_cols) + " exact");
}

}  // namespace heliograph
