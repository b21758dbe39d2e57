#include "core/cpu/aggregate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "core/aggregate_inputs.hpp"
#include "core/buffer.hpp"
#include "heliograph/options.hpp"
#include "quant/codec.hpp"
#include "support/aggregate_reference.hpp"
#include "support/simd_targets.hpp"

namespace heliograph {
namespace {

using test::expect_same_bits;
using test::Packed;
using test::random_matrix;
using test::random_scale;

const std::vector<std::int64_t> kAggregateWidths = {
    1, 2, 3, 4, 5, 7, 8, 13, 15, 16, 17, 31, 32, 33, 41, 47, 100, 127, 128, 129, 255, 256, 602};

/// Rows of skewed degree: some are empty, and one is far longer than the others. With `values`,
/// entries have values other than 1.
Csr random_csr(std::int64_t rows, std::int64_t columns, std::uint32_t seed, bool values = false) {
  std::mt19937 random(seed);
  Csr csr{{0}, {}};
  for (std::int64_t i = 0; i < rows; ++i) {
    std::int64_t degree = i == 2 ? 300 : static_cast<std::int64_t>(random() % 12) - 2;
    if (columns == 0) degree = 0;
    for (; degree > 0; --degree) {
      csr.columns.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(columns)));
    }
    csr.offsets.push_back(static_cast<std::int64_t>(csr.columns.size()));
  }
  if (values) csr.values = test::random_entry_values(csr.columns.size(), seed + 100);
  return csr;
}

const std::vector<RowFormat> kFormats = {
    {1, true},  {1, false}, {2, true},  {2, false},    {4, true},    {4, false},    {8, true},
    {8, false}, {16, true}, {32, true}, {1, false, 1}, {4, true, 3}, {16, true, 1}, {32, true, 2}};

TEST(AggregateInner, ByHand) {
  ThreadPool threads(1);
  const float x[6] = {1, 2, 3, 4, 5, 6};
  const float col_scale[3] = {1, 2, 3};
  const float row_scale[3] = {1, 10, 0.5F};
  const auto sums = [&](std::vector<float> values) {
    const Csr csr{{0, 2, 2, 3}, {1, 2, 0}, std::move(values)};
    std::vector<float> out(6);
    cpu::aggregate_inner(csr.view(), {x, 3, 2, 2}, col_scale, 1, row_scale, {out.data(), 3, 2, 2},
                         {}, threads);
    return out;
  };
  EXPECT_EQ(sums({}), (std::vector<float>{1 + 6 + 15, 2 + 8 + 18, 60, 80, 8, 10}));
  EXPECT_EQ(sums({0.5F, -2, 0}), (std::vector<float>{1 + 3 - 30, 2 + 4 - 36, 60, 80, 7.5F, 9}));
}

TEST(AggregateInnerBf16, ByHand) {
  ThreadPool threads(1);
  const Csr csr{{0, 2, 2, 3}, {1, 2, 0}};
  // 257 and 259 lie halfway between bf16 neighbours and go to the even one: 256 and 260.
  const float x[6] = {257, 259, 1, 2, -257, -259};
  const float col_scale[3] = {1, 3, 1};
  const float row_scale[3] = {1, 10, 0.5F};
  float out[6] = {};
  const BasicMatrix<std::uint16_t> stored(3, 2, MemoryUse::workspace, nullptr);
  cpu::aggregate_inner_bf16(csr.view(), {x, 3, 2, 2}, col_scale, 1, row_scale, {out, 3, 2, 2},
                            stored.view(), threads);
  const float expected[6] = {256 + 3 - 256, 260 + 6 - 260, 30, 60, 0, 0};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], expected[i]) << i;
}

/// The sums of inner rows, read as fp32 or as bf16, and the plain loops that they are compared
/// with.
class AggregateInnerRows : public ::testing::TestWithParam<RowStorage> {
 protected:
  static void expected(const Csr& csr, ConstMatrixView x, const float* by_column, float self,
                       const float* by_row, MatrixView out) {
    (GetParam() == RowStorage::bf16
         ? cpu::aggregate_inner_bf16_reference
         : cpu::aggregate_inner_reference)(csr.view(), x, by_column, self, by_row, out);
  }
  static void aggregate(const Csr& csr, ConstMatrixView x, const float* by_column, float self,
                        const float* by_row, MatrixView out, ThreadPool& threads) {
    if (GetParam() != RowStorage::bf16) {
      return cpu::aggregate_inner(csr.view(), x, by_column, self, by_row, out, {}, threads);
    }
    const BasicMatrix<std::uint16_t> stored(x.rows, x.cols, MemoryUse::workspace, nullptr);
    std::fill_n(stored.view().data, x.rows * stored.view().stride, 0x7fc0);  // NaN
    cpu::aggregate_inner_bf16(csr.view(), x, by_column, self, by_row, out, stored.view(), threads);
  }
};

TEST_P(AggregateInnerRows, HasTheBitsOfTheReferenceOnEveryTarget) {
  // Sums run in entry order in every lane, so that not even rounding differs.
  ThreadPool one(1), three(3);
  for (const std::int64_t cols : kAggregateWidths) {
    for (const std::int64_t rows : {0, 1, 31, 33, cols > 129 ? 70 : 257}) {
      const std::string what = std::to_string(rows) + " x " + std::to_string(cols);
      const Csr plain = random_csr(rows, rows, 1);
      const Csr weighted = random_csr(rows, rows, 1, true);
      const Matrix x = random_matrix(rows, cols, 2);
      const auto col_scale = random_scale(rows, 3);
      const auto row_scale = random_scale(rows, 4);
      const Matrix wanted(rows, cols, MemoryUse::workspace, nullptr);
      const Matrix out(rows, cols, MemoryUse::workspace, nullptr);
      std::fill_n(wanted.view().data, rows * wanted.view().stride, -7.0F);
      for (const float self : {0.0F, 1.0F, 1.5F}) {
        for (const int kind : {0, 1, 2, 3}) {
          const bool scaled = kind % 2 == 1;
          const Csr& csr = kind < 2 ? plain : weighted;
          const float* by_column = scaled ? col_scale.data() : nullptr;
          const float* by_row = scaled ? row_scale.data() : nullptr;
          expected(csr, x.view(), by_column, self, by_row, wanted.view());
          for_each_simd_target([&] {
            for (ThreadPool* threads : {&one, &three}) {
              std::fill_n(out.view().data, rows * out.view().stride, -7.0F);
              aggregate(csr, x.view(), by_column, self, by_row, out.view(), *threads);
              expect_same_bits(out, wanted, what);
            }
          });
        }
      }
    }
  }
}

TEST_P(AggregateInnerRows, ReadsAndWritesColumnRanges) {
  ThreadPool threads(1);
  const Csr csr = random_csr(50, 50, 1, true);
  for (const std::int64_t cols : {1, 5, 16, 41, 100}) {
    const Matrix x = random_matrix(50, cols + 7, 2);
    const Matrix out(50, cols + 9, MemoryUse::workspace, nullptr);
    const Matrix wanted(50, cols + 9, MemoryUse::workspace, nullptr);
    std::fill_n(out.view().data, 50 * out.view().stride, -7.0F);
    std::fill_n(wanted.view().data, 50 * out.view().stride, -7.0F);
    const ConstMatrixView from = ConstMatrixView(x.view()).col_range(5, cols);
    expected(csr, from, nullptr, 1, nullptr, wanted.view().col_range(3, cols));
    for_each_simd_target([&] {
      aggregate(csr, from, nullptr, 1, nullptr, out.view().col_range(3, cols), threads);
      expect_same_bits(out, wanted, std::to_string(cols));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Storage, AggregateInnerRows,
                         ::testing::Values(RowStorage::fp32, RowStorage::bf16),
                         [](const auto& tested) {
                           return tested.param == RowStorage::bf16 ? "Bf16" : "Fp32";
                         });

TEST(AggregateInnerBf16, ValuesAreTheNearestOnesOnEveryTarget) {
  // Values around every kind of rounding, of both signs. Each row is its own only neighbour.
  std::vector<float> values;
  for (const std::uint32_t upper :
       {0x0000U, 0x0001U, 0x007fU, 0x0080U, 0x3f80U, 0x3f81U, 0x7f7eU, 0x7f7fU, 0x7f80U, 0x7fffU}) {
    for (const std::uint32_t lower : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      for (const std::uint32_t sign : {0U, 0x80000000U}) {
        values.push_back(std::bit_cast<float>(sign | (upper << 16) | lower));
      }
    }
  }
  const auto cols = static_cast<std::int64_t>(values.size());
  const Csr csr{{0, 0}, {}};
  ThreadPool threads(1);
  for_each_simd_target([&] {
    std::vector<float> out(values.size());
    const BasicMatrix<std::uint16_t> stored(1, cols, MemoryUse::workspace, nullptr);
    cpu::aggregate_inner_bf16(csr.view(), {values.data(), 1, cols, cols}, nullptr, 1, nullptr,
                              {out.data(), 1, cols, cols}, stored.view(), threads);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float x = values[i];
      EXPECT_EQ(stored.view().data[i], nearest_bf16(x)) << x;
      if (std::isnan(x)) {
        EXPECT_TRUE(std::isnan(out[i]));
      } else if (std::isinf(out[i])) {
        EXPECT_GE(std::abs(x), 0x1.ffp127F);  // halfway from the largest bf16 to 2^128
      } else {
        // Neither neighbour is nearer.
        const std::uint16_t half = stored.view().data[i];
        const double error = std::abs(static_cast<double>(x) - out[i]);
        for (const int step : {-1, 1}) {
          const float other = bf16_to_float(static_cast<std::uint16_t>(half + step));
          if (std::isfinite(other)) {
            EXPECT_LE(error, std::abs(static_cast<double>(x) - other)) << x;
          }
        }
      }
    }
  });
}

TEST(AggregateHalo, OneBitByHand) {
  // Two rows of two columns: {1, 3} and {-2, -2 + 0.5}.
  ThreadPool threads(1);
  std::vector<std::byte> bytes(2 * 5 + 64);
  const auto put = [&](std::size_t at, std::uint16_t value) {
    std::memcpy(bytes.data() + at, &value, 2);
  };
  put(0, 0x3f80);  // 1
  put(2, 0x8000);  // 2
  bytes[4] = std::byte{0b10};
  put(5, 0xc000);  // -2
  put(7, 0x7e00);  // 0.5
  bytes[9] = std::byte{0b10};
  const PackedRows packed{bytes.data(), 2, 2, 1, {1, true}};
  const Csr csr{{0, 2, 2, 5}, {0, 1, 1, 1, 0}};
  const float row_scale[3] = {2, 9, 1};
  float out[12] = {7, 1, 1, 7, 7, 1, 1, 7, 7, 1, 1, 7};
  cpu::aggregate_halo(csr.view(), packed, row_scale, {out, 3, 4, 4}, {}, threads);
  const float expected[12] = {7, -1, 4, 7, 7, 1, 1, 7, 7, -2, 1, 7};
  for (int i = 0; i < 12; ++i) EXPECT_EQ(out[i], expected[i]) << i;

  const std::vector<float> values{2, -1, 3, 0, 0.5F};
  CsrView weighted = csr.view();
  weighted.values = values.data();
  float sums[12] = {7, 1, 1, 7, 7, 1, 1, 7, 7, 1, 1, 7};
  cpu::aggregate_halo(weighted, packed, row_scale, {sums, 3, 4, 4}, {}, threads);
  const float wanted[12] = {7, 9, 16, 7, 7, 1, 1, 7, 7, -4.5F, -2, 7};
  for (int i = 0; i < 12; ++i) EXPECT_EQ(sums[i], wanted[i]) << i;
}

class AggregateHaloRows : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Entries, AggregateHaloRows, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Weighted" : "Plain"; });

/// For each row, the largest absolute value that its sum of decoded values times those of its
/// entries can have.
std::vector<double> sizes_of_sums(const Csr& csr, const PackedRows& packed) {
  std::vector<double> sizes;
  for (std::int64_t i = 0; i < csr.view().rows; ++i) {
    double size = 0;
    for (std::int64_t e = csr.view().offsets[i]; e < csr.view().offsets[i + 1]; ++e) {
      const RowParameters p = read_parameters(packed.row(csr.view().columns[e]), packed.format);
      size += std::abs(cpu::entry_value(csr.view(), e)) *
              (std::abs(p.minimum) + p.step * ((1 << packed.format.bits) - 1));
    }
    sizes.push_back(size);
  }
  return sizes;
}

TEST_P(AggregateHaloRows, AgreeWithDecodingFirst) {
  const bool weighted = GetParam();
  ThreadPool threads(2);
  for (const RowFormat format : kFormats) {
    for (const std::int64_t cols : kAggregateWidths) {
      for (const std::int64_t rows : {0, 1, 31, 33, cols > 129 ? 70 : 257}) {
        const std::string what = std::to_string(format.bits) + " bits, " + std::to_string(rows) +
                                 " x " + std::to_string(cols);
        const std::int64_t halo = rows == 31 ? 1 : 60;
        const Packed packed(halo, cols, format, 3.0F);
        const Csr csr = random_csr(rows, halo, 5, weighted);
        const auto row_scale = random_scale(rows, 6);
        const Matrix before = random_matrix(rows, cols, 7);
        const Matrix expected = random_matrix(rows, cols, 7);
        cpu::aggregate_halo_reference(csr.view(), packed.rows, row_scale.data(), expected.view());
        const auto sizes =
            format.is_codes() ? sizes_of_sums(csr, packed.rows) : std::vector<double>{};
        Matrix first;
        for_each_simd_target([&] {
          Matrix out(rows, cols, MemoryUse::workspace, nullptr);
          std::copy_n(before.view().data, rows * before.view().stride, out.view().data);
          cpu::aggregate_halo(csr.view(), packed.rows, row_scale.data(), out.view(), {}, threads);
          if (!format.is_codes()) return expect_same_bits(out, expected, what);
          for (std::int64_t i = 0; i < rows; ++i) {
            // Minima and codes are summed apart: each of the degree + 2 additions of either order
            // rounds by at most 2^-24 of the largest partial sum there can be. So does each of two
            // products by an entry's value.
            const auto at = static_cast<std::size_t>(i);
            const std::int64_t degree = csr.offsets[at + 1] - csr.offsets[at];
            for (std::int64_t c = 0; c < cols; ++c) {
              const double total = sizes[at] * row_scale[at] + std::abs(before.view().row(i)[c]);
              const double bound = 2.0 * static_cast<double>(degree + 4) * 0x1p-24 * total;
              const double error =
                  static_cast<double>(out.view().row(i)[c]) - expected.view().row(i)[c];
              // An assertion for each value would take most of the test's time.
              if (!(std::abs(error) <= bound))
                FAIL() << what << ", " << i << ", " << c << ": " << error;
            }
          }
          if (first.empty()) {
            first = std::move(out);
          } else if (!weighted) {  // products of values and steps may be fused with sums
            expect_same_bits(out, first, what + ", between targets");
          }
        });
      }
    }
  }
}

TEST(AggregateHalo, SumsGroups) {
  ThreadPool threads(2);
  const Csr csr = random_csr(50, 60, 8, true);
  const auto row_scale = random_scale(50, 6);
  for (RowFormat format : kFormats) {
    format.groups = 3;
    for (const std::int64_t width : {1, 7, 8, 16, 40, 64, 100}) {
      const std::int64_t cols = 3 * width;
      const std::string what = std::to_string(format.bits) + " bits, " + std::to_string(cols);
      Packed packed(60, cols, format, 1.0F);
      packed.rows.col_begin = 5;
      const Matrix expected = random_matrix(50, cols + 9, 7);
      cpu::aggregate_halo_reference(csr.view(), packed.rows, row_scale.data(), expected.view());
      for_each_simd_target([&] {
        const Matrix out = random_matrix(50, cols + 9, 7);
        cpu::aggregate_halo(csr.view(), packed.rows, row_scale.data(), out.view(), {}, threads);
        if (!format.is_codes()) return expect_same_bits(out, expected, what);
        for (std::int64_t i = 0; i < 50; ++i) {
          for (std::int64_t c = 0; c < cols + 9; ++c) {
            // Sums of at most 300 terms below 20, times at most 2, in another order.
            const bool summed = c >= 5 && c < cols + 5;
            ASSERT_NEAR(out.view().row(i)[c], expected.view().row(i)[c], summed ? 1e-2 : 0) << what;
          }
        }
      });
      const BasicMatrix<double> sums(50, cols + 9, MemoryUse::workspace, nullptr);
      std::fill_n(sums.view().data, 50 * sums.view().stride, 0.0);
      const Matrix fp64(50, cols + 9, MemoryUse::workspace, nullptr);
      const Matrix fp32(50, cols + 9, MemoryUse::workspace, nullptr);
      for (const Matrix* m : {&fp64, &fp32}) {
        std::fill_n(m->view().data, 50 * m->view().stride, 0.0F);
      }
      cpu::aggregate_halo(csr.view(), packed.rows, row_scale.data(), fp64.view(), sums.view(),
                          threads);
      cpu::aggregate_halo_reference(csr.view(), packed.rows, row_scale.data(), fp32.view());
      for (std::int64_t i = 0; i < 50; ++i) {
        for (std::int64_t c = 0; c < cols + 9; ++c) {
          ASSERT_NEAR(fp64.view().row(i)[c], fp32.view().row(i)[c], 1e-2) << what;
        }
      }
    }
  }
}

TEST(AggregateHalo, StaysInItsColumns) {
  ThreadPool threads(1);
  const Csr csr = random_csr(50, 20, 8, true);
  for (const RowFormat format : kFormats) {
    for (const std::int64_t cols : {1, 5, 16, 41, 100}) {
      Packed packed(20, cols, format);
      packed.rows.col_begin = 3;
      for_each_simd_target([&] {
        const Matrix out(50, cols + 9, MemoryUse::workspace, nullptr);
        std::fill_n(out.view().data, 50 * out.view().stride, -7.0F);
        cpu::aggregate_halo(csr.view(), packed.rows, nullptr, out.view(), {}, threads);
        for (std::int64_t i = 0; i < 50; ++i) {
          const std::size_t row = static_cast<std::size_t>(i);
          const bool empty = csr.offsets[row] == csr.offsets[row + 1];
          for (std::int64_t c = 0; c < out.view().stride; ++c) {
            if (empty || c < 3 || c >= cols + 3) {
              ASSERT_EQ(out.view().row(i)[c], -7.0F) << i << ' ' << c;
            }
          }
        }
      });
    }
  }
}

TEST(Aggregate, SameBitsWhateverTheThreads) {
  const Csr csr = random_csr(3000, 3000, 9, true);
  const Matrix x = random_matrix(3000, 100, 10);
  const auto scale = random_scale(3000, 11);
  for (const RowFormat format : kFormats) {
    const Packed packed(3000, 100, format);
    Matrix first;
    for (const int count : {1, 2, 3}) {
      ThreadPool threads(count);
      Matrix out(3000, 100, MemoryUse::workspace, nullptr);
      cpu::aggregate_inner(csr.view(), x.view(), scale.data(), 1, scale.data(), out.view(), {},
                           threads);
      cpu::aggregate_halo(csr.view(), packed.rows, scale.data(), out.view(), {}, threads);
      if (first.empty()) {
        first = std::move(out);
      } else {
        expect_same_bits(out, first, std::to_string(count) + " threads");
      }
    }
  }
}

TEST(Aggregate, Fp64SumsAreExactlyThoseOfPlainLoops) {
  for (const bool weighted : {false, true}) {
    const Csr inner = random_csr(200, 200, 12, weighted);
    const Csr halo = random_csr(200, 40, 13, weighted);
    const Matrix x = random_matrix(200, 41, 14);
    const auto scale = random_scale(200, 15);
    for (const RowFormat format : kFormats) {
      const Packed packed(40, 41, format, 3.0F);
      for (const int count : {1, 3}) {
        ThreadPool threads(count);
        const Matrix out(200, 41, MemoryUse::workspace, nullptr);
        const BasicMatrix<double> acc(200, 41, MemoryUse::workspace, nullptr);
        std::fill_n(acc.view().data, 200 * acc.view().stride, 1e9);  // overwritten, not added to
        cpu::aggregate_inner(inner.view(), x.view(), scale.data(), 1.25F, scale.data(), out.view(),
                             acc.view(), threads);
        cpu::aggregate_halo(halo.view(), packed.rows, scale.data(), out.view(), acc.view(),
                            threads);
        for (std::int64_t i = 0; i < 200; ++i) {
          const auto row = static_cast<std::size_t>(i);
          for (std::int64_t c = 0; c < 41; ++c) {
            const auto at = [&](std::int64_t j) {
              return static_cast<double>(scale[static_cast<std::size_t>(j)] * x.view().row(j)[c]);
            };
            double sum = 1.25 * at(i);
            for (auto e = inner.offsets[row]; e < inner.offsets[row + 1]; ++e) {
              sum += double{cpu::entry_value(inner.view(), e)} *
                     at(inner.columns[static_cast<std::size_t>(e)]);
            }
            for (auto e = halo.offsets[row]; e < halo.offsets[row + 1]; ++e) {
              const std::byte* from = packed.rows.row(halo.columns[static_cast<std::size_t>(e)]);
              const double value = cpu::entry_value(halo.view(), e);
              if (format.is_codes()) {
                const RowParameters p = read_parameters(from, format);
                const double code = read_code(from + format.parameter_bytes(), format.bits, 41, c);
                sum +=
                    value * (static_cast<double>(p.minimum) + code * static_cast<double>(p.step));
              } else {
                sum += value * static_cast<double>(decode_value(from, format, 41, c));
              }
            }
            ASSERT_EQ(acc.view().row(i)[c], sum) << format.bits << ' ' << i << ' ' << c;
            ASSERT_EQ(out.view().row(i)[c],
                      static_cast<float>(static_cast<double>(scale[row]) * sum));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace heliograph
