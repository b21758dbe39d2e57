#include "core/attention.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/aggregate_inputs.hpp"
#include "core/cpu/aggregate_tiles.hpp"
#include "core/kernels.hpp"
#include "support/simd_targets.hpp"

namespace heliograph {
namespace {

using test::random_matrix;
using test::uneven_rows;

Matrix make(std::int64_t rows, const std::vector<float>& values) {
  const auto cols = static_cast<std::int64_t>(values.size()) / rows;
  Matrix m(rows, cols, MemoryUse::workspace, nullptr);
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    m.view().row(i / cols)[i % cols] = values[static_cast<std::size_t>(i)];
  }
  return m;
}

/// Memory of sums, in fp32 or fp64.
struct Sums {
  Matrix positive, other, rows;
  BasicMatrix<double> positive64, other64, rows64;

  Sums(std::int64_t count, std::int64_t cols, int heads, bool fp64) {
    if (fp64) {
      positive64 = BasicMatrix<double>(count, cols, MemoryUse::workspace, nullptr);
      other64 = BasicMatrix<double>(count, cols, MemoryUse::workspace, nullptr);
      rows64 = BasicMatrix<double>(count, 3 * heads, MemoryUse::workspace, nullptr);
    } else {
      positive = Matrix(count, cols, MemoryUse::workspace, nullptr);
      other = Matrix(count, cols, MemoryUse::workspace, nullptr);
      rows = Matrix(count, 3 * heads, MemoryUse::workspace, nullptr);
    }
  }
  AttentionSums view() const {
    return {{positive.view(), other.view(), rows.view()},
            {positive64.view(), other64.view(), rows64.view()}};
  }
};

// Three nodes with z = (1, -1), (0, 2), (2, 1), source (1, 0) and target (0, 1): the weights of
// node 0 are .2204094, .1804559 and .5991347, worked by hand.
TEST(AttentionKernels, GiveTheCaseWorkedByHand) {
  const Matrix z = make(3, {1, -1, 0, 2, 2, 1});
  const std::vector<float> source{1, 0}, target{0, 1};
  const Csr csr{{0, 2, 2, 2}, {1, 2}};
  for (const bool fp64 : {false, true}) {
    const auto kernels = make_cpu_kernels(1, fp64);
    Matrix s = make(3, {0, 0, 0}), t = make(3, {0, 0, 0}), out = make(3, std::vector<float>(6));
    Matrix positive = make(3, std::vector<float>(6));
    Matrix share = make(3, {0, 0, 0}), log_total = make(3, {0, 0, 0});
    kernels->attention_scores(z.view(), source.data(), target.data(), s.view(), t.view());
    Attention a;
    a.own_rows = true;
    a.row_scores = t.view();
    const Sums sums(3, 2, 1, fp64);
    kernels->attention_inner(csr.view(), a, z.view(), s.view(), sums.view());
    kernels->attention_output(sums.view(), 1, out.view(), positive.view(), share.view(),
                              log_total.view());
    EXPECT_NEAR(out.view().row(0)[0], 1.4186788, 1e-6);
    EXPECT_NEAR(out.view().row(0)[1], 0.7396372, 1e-6);
    EXPECT_NEAR(log_total.view().row(0)[0], 1.5122688, 1e-6);
    // Only the score of node 2, 1, is above 0.
    EXPECT_NEAR(share.view().row(0)[0], 0.5991347, 1e-6);
    EXPECT_NEAR(positive.view().row(0)[0], 2 * 0.5991347, 1e-6);
    // The other nodes have only themselves.
    EXPECT_EQ(out.view().row(1)[1], 2.0F);
  }
}

struct Case {
  int heads;
  std::int64_t head_cols;
  RowFormat format;
  bool backward, shared, drops;
  std::int64_t rows = 37;
  std::int64_t longest = 200;      ///< Inner and halo entries of row 7.
  std::int64_t first_columns = 0;  ///< Of halo rows in two blocks of columns; 0: in one.
};

/// A rank's rows with inner and halo neighbours, and what they must sum to, in fp64.
class Block {
 public:
  static constexpr std::int64_t kHalo = 23;

  explicit Block(const Case& c)
      : case_(c), cols_((c.shared ? 1 : c.heads) * c.head_cols), random_(c.heads + 7) {
    const std::int64_t exact = (c.backward ? 3 : 1) * std::int64_t{c.heads};
    x_ = random_matrix(case_.rows, cols_, 1);
    exact_ = random_matrix(case_.rows, exact, 2);
    row_scores_ = random_matrix(case_.rows, c.heads, 3);
    halo_x_ = random_matrix(kHalo, cols_, 4);
    halo_exact_ = random_matrix(kHalo, exact, 5);
    inner_ = uneven_rows(case_.rows, case_.rows, 0, random_, c.longest);
    halo_ = uneven_rows(case_.rows, kHalo, 1, random_, c.longest);
    for (std::int64_t i = 0; i < case_.rows + kHalo; ++i) ids_.push_back(1000 + 3 * i);
    RowFormat format = c.format;
    format.exact_cols = static_cast<int>(exact);
    format.groups = c.shared ? 1 : c.heads;
    std::vector<std::int32_t> all;
    for (std::int32_t r = 0; r < kHalo; ++r) all.push_back(r);
    RowSelection selection;
    selection.rows = all;
    selection.global_ids = ids_.data();
    selection.exact = halo_exact_.view();
    const auto codec = make_cpu_codec(format);
    const auto pack = [&](std::int64_t begin, std::int64_t cols) {
      std::vector<std::byte>& bytes = bytes_.emplace_back(codec->encoded_bytes(kHalo, cols) + 64);
      ThreadPool threads(1);
      EXPECT_EQ(
          codec->encode(halo_x_.view().col_range(begin, cols), selection, 5, bytes.data(), threads)
              .row,
          -1);
      packed_.emplace_back(bytes.data(), kHalo, cols, begin, format);
    };
    if (c.first_columns > 0) pack(0, c.first_columns);
    pack(c.first_columns, cols_ - c.first_columns);
  }

  Attention attention(bool halo) const {
    Attention a;
    a.heads = case_.heads;
    a.backward = case_.backward;
    a.shared = case_.shared;
    a.own_rows = !halo;
    a.row_scores = row_scores_.view();
    if (case_.drops) {
      a.dropout = {20000, 99, ids_.data(), ids_.data() + (halo ? case_.rows : 0)};
    }
    return a;
  }

  void sum(Kernels& kernels, const Sums& sums, std::int64_t cut = 0) const {
    kernels.attention_inner(inner_.view(), attention(false), x_.view(), exact_.view(), sums.view());
    for (const PackedRows& block : packed_) {
      for (const RowRange rows : {RowRange{0, cut}, {cut, case_.rows}}) {
        kernels.attention_halo(halo_.view().row_range(rows), attention(true).row_range(rows), block,
                               sums.view().row_range(rows));
      }
    }
  }

  /// Sums of row i and head h, unnormalised, with 0 as the shift in forward.
  struct Expected {
    std::vector<double> positive, other;
    double positive_total = 0, other_total = 0;
    double size = 0;  ///< The sum of all terms' magnitudes.
  };
  Expected expected(std::int64_t i, int h) const {
    Expected e{std::vector<double>(case_.head_cols), std::vector<double>(case_.head_cols)};
    const auto add = [&](bool halo, std::int64_t j) {
      const auto exact = [&](int part) {
        const std::int64_t c = std::int64_t{part} * case_.heads + h;
        return static_cast<double>((halo ? halo_exact_ : exact_).view().row(j)[c]);
      };
      const double score = static_cast<double>(row_scores_.view().row(i)[h]) + exact(0);
      const double leaky = score > 0 ? score : static_cast<double>(0.2F) * score;
      const double w = std::exp(leaky - (case_.backward ? exact(1) : 0));
      (score > 0 ? e.positive_total : e.other_total) += case_.backward ? w * exact(2) : w;
      e.size += w;
      const Attention a = attention(halo);
      double drop = 1;
      if (case_.drops) {
        const auto key = a.dropout.key(i, static_cast<std::int32_t>(j), case_.backward);
        const bool kept = noise16(key, static_cast<std::uint32_t>(h)) >= a.dropout.threshold;
        drop = kept ? static_cast<double>(a.dropout.scale()) : 0;
      }
      for (std::int64_t c = 0; c < case_.head_cols; ++c) {
        const std::int64_t col = (case_.shared ? 0 : h * case_.head_cols) + c;
        const float value = halo ? halo_value(j, col) : x_.view().row(j)[col];
        const double term = w * drop * static_cast<double>(value);
        (score > 0 ? e.positive : e.other)[static_cast<std::size_t>(c)] += term;
        e.size += std::abs(term);
      }
    };
    add(false, i);
    for (auto k = inner_.offsets[i]; k < inner_.offsets[i + 1]; ++k) add(false, inner_.columns[k]);
    for (auto k = halo_.offsets[i]; k < halo_.offsets[i + 1]; ++k) add(true, halo_.columns[k]);
    return e;
  }

 private:
  float halo_value(std::int64_t j, std::int64_t col) const {
    const PackedRows& block = col < case_.first_columns ? packed_.front() : packed_.back();
    return decode_value(block.row(j), block.format, block.cols, col - block.col_begin);
  }

  Case case_;
  std::int64_t cols_;
  std::mt19937 random_;
  Matrix x_, exact_, row_scores_, halo_x_, halo_exact_;
  Csr inner_, halo_;
  std::vector<std::int64_t> ids_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<PackedRows> packed_;
};

void expect_sums(const Case& c, const std::string& what) {
  const Block block(c);
  for (const bool fp64 : {false, true}) {
    const auto kernels = make_cpu_kernels(2, fp64);
    const Sums sums(c.rows, c.heads * c.head_cols, c.heads, fp64);
    block.sum(*kernels, sums);
    const auto value = [&](const Matrix& f32, const BasicMatrix<double>& f64, std::int64_t i,
                           std::int64_t col) {
      return fp64 ? f64.view().row(i)[col] : static_cast<double>(f32.view().row(i)[col]);
    };
    const double tolerance = fp64 ? 1e-13 : 1e-6;
    for (std::int64_t i = 0; i < c.rows; ++i) {
      for (int h = 0; h < c.heads; ++h) {
        const Block::Expected e = block.expected(i, h);
        const double scale = c.backward ? 1 : std::exp(-value(sums.rows, sums.rows64, i, h));
        const auto near = [&](double got, double expected, const char* name) {
          // An assertion for each value would take most of the test's time.
          if (!(std::abs(got - expected * scale) <= tolerance * (1 + e.size * scale))) {
            FAIL() << what << (fp64 ? " fp64 " : " fp32 ") << name << " row " << i << " head " << h
                   << ": " << got << ", not " << expected * scale;
          }
        };
        near(value(sums.rows, sums.rows64, i, c.heads + h), e.positive_total, "positive total");
        near(value(sums.rows, sums.rows64, i, 2 * c.heads + h), e.other_total, "other total");
        for (std::int64_t col = 0; col < c.head_cols; ++col) {
          const auto at = static_cast<std::size_t>(col);
          const std::int64_t to = h * c.head_cols + col;
          near(value(sums.positive, sums.positive64, i, to), e.positive[at], "positive");
          near(value(sums.other, sums.other64, i, to), e.other[at], "other");
        }
      }
    }
  }
}

TEST(AttentionKernels, SumInnerAndPackedRowsOnEveryTarget) {
  for_each_simd_target([] {
    for (const int bits : {1, 2, 4, 8, 16, 32}) {
      for (const auto& [heads, cols] : {std::pair{1, 7}, {3, 16}, {2, 100}, {4, 64}}) {
        for (const bool backward : {false, true}) {
          for (const bool shared : {false, true}) {
            if (shared && !backward) continue;
            const Case c{heads, cols, {bits, true}, backward, shared, bits == 8};
            expect_sums(c, fmt::format("{} heads of {} columns, {} bits,", heads, cols, bits));
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

// More rows than one task sums, with each of two threads working on several.
TEST(AttentionKernels, SumInSeveralTiles) {
  for (const bool backward : {false, true}) {
    expect_sums({4, 64, {4, true}, backward, false, true, 3000}, "3000 rows,");
  }
}

// The row of 5000 entries goes on in two more tiles, in the inner block and in the halo.
TEST(AttentionKernels, AddThePartsOfALongRow) {
  for (const bool backward : {false, true}) {
    expect_sums({4, 64, {4, true}, backward, false, true, 37, 5000}, "5000 entries,");
    expect_sums({4, 64, {32, true}, backward, false, true, 37, 5000, 80}, "blocks of columns,");
  }
}

TEST(AttentionKernels, SumHaloRowsInRangesToTheSameBits) {
  for (const bool backward : {false, true}) {
    const Block block({4, 64, {4, true}, backward, false, true, 37, 5000});
    for (const bool fp64 : {false, true}) {
      const auto kernels = make_cpu_kernels(2, fp64);
      const Sums all(37, 256, 4, fp64), ranges(37, 256, 4, fp64);
      block.sum(*kernels, all);
      block.sum(*kernels, ranges, 5);
      const auto expect_same = [&](const auto& got, const auto& expected, const char* what) {
        ASSERT_EQ(got.view().data == nullptr, expected.view().data == nullptr);
        for (std::int64_t i = 0; i < got.view().rows; ++i) {
          const auto *from = got.view().row(i), *like = expected.view().row(i);
          EXPECT_TRUE(std::equal(from, from + got.view().cols, like)) << what << " " << i;
        }
      };
      expect_same(ranges.positive, all.positive, "positive");
      expect_same(ranges.other, all.other, "other");
      expect_same(ranges.rows, all.rows, "totals");
      expect_same(ranges.positive64, all.positive64, "positive");
      expect_same(ranges.other64, all.other64, "other");
      expect_same(ranges.rows64, all.rows64, "totals");
    }
  }
}

// The memory of a tile is made for `most_work`. Where a long row is cut does not depend on others.
TEST(RowTiles, HaveEachEntryInOnePartOfBoundedWork) {
  for (const std::int64_t longest : {0, 1, 700, 4000}) {
    Csr csr{{0}, {}};
    for (std::int64_t row = 0; row < 900; ++row) {
      csr.offsets.push_back(csr.offsets.back() + (row % 100 == 99 ? longest : row % 7));
    }
    const CsrView view = csr.view();
    const cpu::RowTiles tiles(view, 1000);
    std::vector<std::pair<std::int64_t, std::int64_t>> continued, expected;
    tiles.for_continued([&](std::int64_t t, std::int64_t row) { continued.emplace_back(t, row); });
    std::int64_t most = 0, row = 0, entry = 0;
    for (std::int64_t t = 0; t < tiles.count(); ++t) {
      const cpu::RowTiles::Tile part = tiles.part(t);
      if (part.begin == part.end) continue;
      ASSERT_EQ(part.first, entry) << longest << " tile " << t;
      if (part.begin < row) {
        ASSERT_EQ(part.begin, row - 1);
        ASSERT_EQ((part.first - view.offsets[part.begin]) % ((1 << 19) / 1000), 0);
        expected.emplace_back(t, part.begin);
      } else {
        ASSERT_EQ(part.first, view.offsets[part.begin]);
      }
      row = part.end;
      entry = part.last;
      most = std::max(most, part.last - part.first + part.end - part.begin);
    }
    EXPECT_EQ(row, view.rows) << longest;
    EXPECT_EQ(entry, view.offsets[view.rows]) << longest;
    EXPECT_EQ(continued, expected) << longest;
    EXPECT_GE(continued.size(), longest == 4000 ? 63U : longest == 700 ? 9U : 0U);
    EXPECT_LE(most, tiles.most_work()) << longest;
  }
  EXPECT_EQ(cpu::RowTiles(CsrView{}, 1).most_work(), 0);
}

// Rows 3, 0 and 4 of x were sent, the first two to two ranks.
TEST(AttentionKernels, CountTheRoundingOfSentRows) {
  for (const int bits : {1, 8, 16, 32}) {
    for (const int heads : {1, 3}) {
      const std::int64_t cols = std::int64_t{heads} * 16;
      const std::vector<std::int32_t> sent{3, 0, 3, 4, 0}, nodes{3, 0, -1, 4, -1};
      const std::vector<std::int64_t> ids{7, 8, 9, 10, 11, 12};
      const Matrix x = random_matrix(6, cols, 1), exact = random_matrix(6, heads, 2);
      const RowFormat format{bits, true, heads, heads};
      const auto codec = make_cpu_codec(format);
      std::vector<std::byte> bytes(codec->encoded_bytes(5, cols) + 64);
      ThreadPool threads(1);
      ASSERT_EQ(codec
                    ->encode(x.view(), {sent, nullptr, ids.data(), nullptr, exact.view()}, 5,
                             bytes.data(), threads)
                    .row,
                -1);
      const KeptRows kept{PackedRows(bytes.data(), 5, cols, 0, format), nodes.data()};
      for (const bool fp64 : {false, true}) {
        const auto kernels = make_cpu_kernels(2, fp64);
        Sums sums(6, cols, heads, fp64);
        const auto set = [](const auto& view, float add) {
          for (std::int64_t i = 0; i < view.rows * view.cols; ++i) {
            view.data[i / view.cols * view.stride + i % view.cols] =
                add + static_cast<float>(i % 13) / 8;
          }
        };
        if (fp64) {
          set(sums.positive64.view(), 1);
          set(sums.other64.view(), -2);
        } else {
          set(sums.positive.view(), 1);
          set(sums.other.view(), -2);
        }
        for (const RowRange rows : {RowRange{0, 4}, {4, 6}}) {
          kernels->attention_rounding(kept, rows, x.view(), heads, -0.5F, 0.25F, sums.view());
        }
        double largest = 0;
        for (std::int32_t node = 0; node < 6; ++node) {
          const auto place = std::ranges::find(nodes, node) - nodes.begin();
          for (int h = 0; h < heads; ++h) {
            double expected = 0;
            for (std::int64_t c = h * 16; place < 5 && c < (h + 1) * 16; ++c) {
              const auto turn = static_cast<double>((node * cols + c) % 13) / 8;
              expected -=
                  0.5 *
                  static_cast<double>(decode_value(kept.packed.row(place), format, cols, c) -
                                      x.view().row(node)[c]) *
                  (1 + turn + 0.25 * (turn - 2));
            }
            const double got = fp64 ? sums.rows64.view().row(node)[h]
                                    : static_cast<double>(sums.rows.view().row(node)[h]);
            EXPECT_NEAR(got, expected, 1e-5) << bits << " bits, node " << node;
            largest = std::max(largest, std::abs(got));
          }
        }
        EXPECT_EQ(largest > 0, bits < 32);
      }
      Matrix scores(6, heads, MemoryUse::workspace, nullptr);
      make_cpu_kernels(1, false)->decode_rows(kept.packed, kept.nodes, {}, scores.view());
      for (std::int32_t node = 0; node < 6; ++node) {
        const bool was_sent = node == 0 || node == 3 || node == 4;
        EXPECT_EQ(scores.view().row(node)[heads - 1],
                  was_sent ? exact.view().row(node)[heads - 1] : 0.0F);
      }
    }
  }
}

TEST(AttentionKernels, ShowANeighboursNaN) {
  const Matrix z = make(2, {1, 2}), t = make(2, {0, 0});
  const Matrix s = make(2, {0, std::numeric_limits<float>::quiet_NaN()});
  const Csr csr{{0, 1, 1}, {1}};
  Attention a;
  a.own_rows = true;
  a.row_scores = t.view();
  for (const bool fp64 : {false, true}) {
    const auto kernels = make_cpu_kernels(1, fp64);
    const Sums sums(2, 1, 1, fp64);
    const Matrix out = make(2, {0, 0});
    kernels->attention_inner(csr.view(), a, z.view(), s.view(), sums.view());
    kernels->attention_output(sums.view(), 1, out.view(), {}, {}, {});
    EXPECT_TRUE(std::isnan(out.view().row(0)[0]));
  }
}

}  // namespace
}  // namespace heliograph
