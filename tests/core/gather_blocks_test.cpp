#include "core/gather_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/aggregate_inputs.hpp"
#include "core/cpu/aggregate.hpp"
#include "support/aggregate_reference.hpp"
#include "support/simd_targets.hpp"

namespace heliograph {
namespace {

using test::expect_same_bits;
using test::Packed;
using test::random_matrix;
using test::random_scale;

/// Rows of `degree` random entries, sorted as in a shard. A few rows have no entry or one.
Csr dense_csr(std::int64_t rows, std::int64_t columns, std::int64_t degree) {
  std::mt19937 random(9);
  Csr csr{{0}, {}};
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto first = static_cast<std::ptrdiff_t>(csr.columns.size());
    for (std::int64_t e = i % 100 < 2 ? i % 2 : degree; e > 0; --e) {
      csr.columns.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(columns)));
    }
    std::sort(csr.columns.begin() + first, csr.columns.end());
    csr.offsets.push_back(static_cast<std::int64_t>(csr.columns.size()));
  }
  return csr;
}

GatherBlocks blocks_of(const CsrView& csr, std::int64_t sources, ThreadPool& threads) {
  return GatherBlocks(csr, sources, threads, MemoryUse::workspace, nullptr);
}

TEST(GatherBlocks, LeaveTheBitsOfInnerRows) {
  ThreadPool threads(2);
  constexpr std::int64_t kRows = 600;  // several tiles
  constexpr std::int64_t kSources = 7000;
  const Csr csr = dense_csr(kRows, kSources, 120);
  CsrView view = csr.view();
  const GatherBlocks blocks = blocks_of(view, kSources, threads);
  view.blocks = &blocks;
  const auto col_scale = random_scale(kSources, 3);
  const auto row_scale = random_scale(kRows, 4);
  for (const auto& [cols, selves] : {std::pair<std::int64_t, std::vector<float>>{33, {0, 1, 1.5F}},
                                     {64, {0}},
                                     {130, {1}},
                                     {300, {1.5F}}}) {
    ASSERT_TRUE(blocks.serve(cols)) << cols;
    const Matrix x = random_matrix(kSources, cols, 2);
    for (const float self : selves) {
      const bool scaled = self != 0;
      const float* by_column = scaled ? col_scale.data() : nullptr;
      const float* by_row = scaled ? row_scale.data() : nullptr;
      const Matrix expected(kRows, cols, MemoryUse::workspace, nullptr);
      cpu::aggregate_inner_reference(csr.view(), x.view(), by_column, self, by_row,
                                     expected.view());
      const Matrix expected_bf16(kRows, cols, MemoryUse::workspace, nullptr);
      cpu::aggregate_inner_bf16_reference(csr.view(), x.view(), by_column, self, by_row,
                                          expected_bf16.view());
      for_each_simd_target([&] {
        const Matrix out(kRows, cols, MemoryUse::workspace, nullptr);
        cpu::aggregate_inner(view, x.view(), by_column, self, by_row, out.view(), {}, threads);
        expect_same_bits(out, expected, std::to_string(cols));
        const BasicMatrix<std::uint16_t> stored(kSources, cols, MemoryUse::workspace, nullptr);
        cpu::aggregate_inner_bf16(view, x.view(), by_column, self, by_row, out.view(),
                                  stored.view(), threads);
        expect_same_bits(out, expected_bf16, "bf16, " + std::to_string(cols));
      });
    }
  }
}

TEST(GatherBlocks, LeaveTheBitsOfHaloRows) {
  ThreadPool threads(2);
  constexpr std::int64_t kRows = 1100;
  constexpr std::int64_t kHalo = 7000;
  const Csr csr = dense_csr(kRows, kHalo, 120);
  CsrView view = csr.view();
  const GatherBlocks blocks = blocks_of(view, kHalo, threads);
  view.blocks = &blocks;
  const auto row_scale = random_scale(kRows, 4);
  for (const std::int64_t cols : {41, 70, 130}) {
    const Packed packed(kHalo, cols, {32, true, cols == 70 ? 3 : 0});
    ASSERT_TRUE(blocks.serve(cols)) << cols;
    const Matrix expected = random_matrix(kRows, cols, 7);
    cpu::aggregate_halo_reference(csr.view(), packed.rows, row_scale.data(), expected.view());
    for_each_simd_target([&] {
      const Matrix out = random_matrix(kRows, cols, 7);
      cpu::aggregate_halo(view, packed.rows, row_scale.data(), out.view(), {}, threads);
      expect_same_bits(out, expected, std::to_string(cols));
    });
  }
}

/// The blocks hold every entry once, in the order of its row.
TEST(GatherBlocks, HoldAllEntriesOfATile) {
  ThreadPool threads(3);
  const Csr csr = dense_csr(700, 5000, 60);
  const GatherBlocks blocks = blocks_of(csr.view(), 5000, threads);
  ASSERT_FALSE(blocks.empty());
  EXPECT_EQ(blocks.blocks(), 5);
  EXPECT_EQ(blocks.tile_end(blocks.tiles() - 1), 700);
  for (std::int64_t tile = 0; tile < blocks.tiles(); ++tile) {
    const std::int64_t begin = blocks.tile_begin(tile);
    const std::int64_t rows = blocks.tile_end(tile) - begin;
    std::vector<std::vector<std::int32_t>> found(static_cast<std::size_t>(rows));
    const std::uint16_t* column = blocks.columns(tile, csr.view());
    for (std::int64_t b = 0; b < blocks.blocks(); ++b) {
      for (std::int64_t i = 0; i < rows; ++i) {
        for (int n = blocks.counts(tile)[b * rows + i]; n > 0; --n) {
          found[static_cast<std::size_t>(i)].push_back(
              static_cast<std::int32_t>(b * GatherBlocks::kBlockRows + *column++));
        }
      }
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::vector<std::int32_t> row(csr.columns.data() + csr.offsets[begin + i],
                                          csr.columns.data() + csr.offsets[begin + i + 1]);
      EXPECT_EQ(found[static_cast<std::size_t>(i)], row) << begin + i;
    }
  }
}

TEST(GatherBlocks, AreEmptyWhereTheyCannotServe) {
  ThreadPool threads(2);
  EXPECT_TRUE(blocks_of(CsrView{}, 0, threads).empty());
  EXPECT_TRUE(blocks_of(dense_csr(700, 3000, 60).view(), 3000, threads).empty()) << "fits a cache";
  EXPECT_TRUE(blocks_of(dense_csr(700, 7000, 3).view(), 7000, threads).empty()) << "few entries";
  Csr descending = dense_csr(700, 7000, 120);
  ASSERT_FALSE(blocks_of(descending.view(), 7000, threads).empty());
  std::swap(descending.columns[500], descending.columns[501]);
  EXPECT_TRUE(blocks_of(descending.view(), 7000, threads).empty());
  Csr weighted = dense_csr(700, 7000, 120);
  weighted.values.assign(weighted.columns.size(), 2.0F);
  EXPECT_TRUE(blocks_of(weighted.view(), 7000, threads).empty()) << "entries with values";
  const Csr repeated{{0, 70000}, std::vector<std::int32_t>(70000, 6000)};
  EXPECT_TRUE(blocks_of(repeated.view(), 7000, threads).empty()) << "more than 16 bits count";
  EXPECT_FALSE(blocks_of(dense_csr(700, 7000, 120).view(), 7000, threads).serve(32));
  const Csr empty{std::vector<std::int64_t>(701, 0), {}};
  EXPECT_TRUE(blocks_of(empty.view(), 7000, threads).empty()) << "no entries";
  // All entries of a row lie in one of very many blocks.
  Csr local{{0}, {}};
  for (std::int32_t i = 0; i < 2000; ++i) {
    for (std::int32_t c = 0; c < 30; ++c) local.columns.push_back(100 * i + c);
    local.offsets.push_back(static_cast<std::int64_t>(local.columns.size()));
  }
  EXPECT_TRUE(blocks_of(local.view(), 200000, threads).empty()) << "more counts than entries";
}

}  // namespace
}  // namespace heliograph
