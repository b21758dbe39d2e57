#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "core/csr.hpp"
#include "core/packed_rows.hpp"
#include "quant/codec.hpp"

// Inputs of the aggregation tests, and their comparison.

namespace heliograph::test {

inline Matrix random_matrix(std::int64_t rows, std::int64_t cols, std::uint32_t seed) {
  Matrix m(rows, cols, MemoryUse::workspace, nullptr);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) m.view().row(r)[c] = normal(random);
  }
  return m;
}

inline std::vector<float> random_scale(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> scale(static_cast<std::size_t>(count));
  for (float& s : scale) s = std::uniform_real_distribution<float>(0.1F, 2.0F)(random);
  return scale;
}

/// Values of entries: positive, negative and, now and then, 0.
inline std::vector<float> random_entry_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& v : values) {
    v = random() % 8 == 0 ? 0.0F : std::uniform_real_distribution<float>(-2.0F, 2.0F)(random);
  }
  return values;
}

/// A random graph of rows with up to 8 entries, one with 200, and none in every fifth row from
/// `empty`.
inline Csr uneven_rows(std::int64_t rows, std::int64_t columns, int empty, std::mt19937& random,
                       std::int64_t longest = 200) {
  Csr csr;
  csr.offsets = {0};
  for (std::int64_t i = 0; i < rows; ++i) {
    std::int64_t degree = i % 5 == empty ? 0
                          : i == 7       ? longest
                                         : static_cast<std::int64_t>(random() % 9);
    for (; degree > 0; --degree) {
      csr.columns.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(columns)));
    }
    csr.offsets.push_back(static_cast<std::int64_t>(csr.columns.size()));
  }
  return csr;
}

/// Fails the test unless all bits are the same, including the padding, which must not change.
inline void expect_same_bits(const Matrix& a, const Matrix& b, const std::string& what) {
  ASSERT_EQ(a.view().stride, b.view().stride);
  const auto bytes = static_cast<std::size_t>(a.view().rows * a.view().stride) * 4;
  if (bytes == 0) return;
  ASSERT_EQ(0, std::memcmp(a.view().data, b.view().data, bytes)) << what;
}

/// The encoded rows of a random matrix, followed by the readable bytes that PackedRows requires.
struct Packed {
  std::vector<std::byte> bytes;
  PackedRows rows;

  Packed(std::int64_t count, std::int64_t cols, RowFormat format, float shift = 0) {
    Matrix x = random_matrix(count, cols, 21);
    const Matrix exact = random_matrix(count, format.exact_cols, 22);
    std::vector<std::int32_t> selected;
    std::vector<std::int64_t> ids;
    for (std::int64_t r = 0; r < count; ++r) {
      selected.push_back(static_cast<std::int32_t>(r));
      ids.push_back(r);
      for (std::int64_t c = 0; c < cols; ++c) {
        float& value = x.view().row(r)[c];
        value = format.has_minimum ? value + shift : std::abs(value);
      }
    }
    ThreadPool threads(1);
    const auto codec = make_cpu_codec(format);
    bytes.resize(codec->encoded_bytes(count, cols) + 64, std::byte{0xff});
    EXPECT_EQ(codec
                  ->encode(x.view(), {selected, nullptr, ids.data(), nullptr, exact.view()}, 5,
                           bytes.data(), threads)
                  .row,
              -1);
    rows = {bytes.data(), count, cols, 0, format};
  }
};

}  // namespace heliograph::test
