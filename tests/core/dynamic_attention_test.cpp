#include "core/dynamic_attention.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/aggregate_inputs.hpp"
#include "core/kernels.hpp"
#include "support/simd_targets.hpp"

namespace heliograph {
namespace {

using test::random_matrix;
using test::uneven_rows;

Matrix matrix_of(std::int64_t rows, const std::vector<float>& values) {
  const auto cols = static_cast<std::int64_t>(values.size()) / rows;
  Matrix m(rows, cols, MemoryUse::workspace, nullptr);
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    m.view().row(i / cols)[i % cols] = values[static_cast<std::size_t>(i)];
  }
  return m;
}

/// The memory of a gradient in fp32 or fp64.
struct DynamicGradient {
  std::vector<float> f32;
  std::vector<double> f64;

  DynamicGradient(std::int64_t count, bool fp64)
      : f32(static_cast<std::size_t>(fp64 ? 0 : count)),
        f64(static_cast<std::size_t>(fp64 ? count : 0)) {}
  GradientView view() {
    return {f64.empty() ? f32.data() : nullptr, f64.empty() ? nullptr : f64.data()};
  }
  double at(std::int64_t i) const {
    const auto index = static_cast<std::size_t>(i);
    return f64.empty() ? static_cast<double>(f32[index]) : f64[index];
  }
};

void expect_row(ConstMatrixView m, std::int64_t row, const std::vector<double>& expected) {
  for (std::size_t c = 0; c < expected.size(); ++c) {
    EXPECT_NEAR(m.row(row)[c], expected[c], 1e-6) << "row " << row << " column " << c;
  }
}

// Target 0 has the sources 0 and 1: the sums are (1, -1) and (0, 1), the scores 1.2 and -1, the
// weights .9002495 and .0997505, and the scores' gradients -.2694010 and .2694010.
TEST(DynamicAttention, GivesTheCaseWorkedByHand) {
  const Matrix sources = matrix_of(2, {1, 0, 0, 2});
  const std::vector<float> vector{1, -1};
  const Csr csr{{0, 1, 1}, {1}}, transposed{{0, 0, 1}, {0}};
  for (const bool fp64 : {false, true}) {
    const auto kernels = make_cpu_kernels(1, fp64);
    // t, d, L and r.
    const Matrix targets = matrix_of(2, {0, -1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0});
    Matrix out(2, 2, MemoryUse::workspace, nullptr);
    DynamicAttention a;
    a.cols = a.gradient_cols = 2;
    a.vector = vector.data();
    a.inner = {csr.view(), targets.view(), sources.view(), {}, true};
    kernels->dynamic_attention(a, out.view(), targets.view().col_range(4, 1));
    expect_row(out.view(), 0, {0.9002495, 0.1995010});
    expect_row(out.view(), 1, {0, 2});
    expect_row(targets.view().col_range(4, 1), 0, {1.3050832});
    kernels->attention_target_gradient(targets.view().col_range(2, 2), 1, 1, out.view(), {}, {},
                                       targets.view().col_range(5, 1), {});
    expect_row(targets.view().col_range(5, 1), 0, {1.2992515});
    DynamicGradient g_vector(2, fp64);
    kernels->dynamic_attention_targets(a, out.view(), g_vector.view());
    expect_row(out.view(), 0, {-0.2155208, -0.2155208});
    EXPECT_NEAR(g_vector.at(0), -0.2694010, 1e-6);
    EXPECT_NEAR(g_vector.at(1), 0.3232812, 1e-6);
    a.inner = {transposed.view(), sources.view(), targets.view(), {}, true};
    kernels->dynamic_attention_sources(a, out.view());
    expect_row(out.view(), 0, {0.6308485, 1.8543792});
    expect_row(out.view(), 1, {0.1536307, -0.0699000});
  }
}

struct DynamicCase {
  int heads;
  std::int64_t head_cols;
  bool averaged, drops;
  int bits;
  std::int64_t rows = 37;
};

/// A rank's inner block and a halo block whose neighbours were decoded.
class DynamicBlocks {
 public:
  static constexpr std::int64_t kHalo = 23;

  DynamicBlocks(const DynamicCase& c, bool backward)
      : case_(c), backward_(backward), random_(static_cast<unsigned>(c.heads)) {
    const std::int64_t cols = c.heads * c.head_cols;
    a_.heads = c.heads;
    a_.cols = cols;
    a_.gradient_cols = c.averaged ? c.head_cols : cols;
    a_.slope = 0.3F;
    vector_ = random_matrix(1, cols, 1);
    a_.vector = vector_.view().data;
    const std::int64_t sent = backward ? cols + a_.gradient_cols : cols;
    const int exact = backward ? 2 * c.heads : 0;
    sources_ = random_matrix(c.rows, cols, 2);
    targets_ = random_matrix(c.rows, a_.target_cols(), 3);
    const RowFormat format{c.bits, true, exact, static_cast<int>(sent / c.head_cols)};
    const test::Packed packed(kHalo, sent, format);
    halo_ = Matrix(kHalo, sent + exact, MemoryUse::workspace, nullptr);
    make_cpu_kernels(1, false)->decode_rows(packed.rows, nullptr, halo_.view(),
                                            halo_.view().col_range(sent, exact));
    inner_csr_ = uneven_rows(c.rows, c.rows, 0, random_);
    halo_csr_ = uneven_rows(c.rows, kHalo, 1, random_);
    for (std::int64_t i = 0; i < c.rows + kHalo; ++i) ids_.push_back(1000 + 3 * i);
    const ConstMatrixView own = backward ? sources_.view() : targets_.view();
    const ConstMatrixView others = backward ? targets_.view() : sources_.view();
    a_.inner = {inner_csr_.view(), own, others, {}, true};
    a_.halo = {halo_csr_.view(), own, halo_.view(), {}};
    if (c.drops) {
      a_.inner.dropout = {{20000}, 99, ids_.data(), ids_.data()};
      a_.halo.dropout = {{20000}, 99, ids_.data(), ids_.data() + c.rows};
    }
  }
  const DynamicAttention& attention() const { return a_; }

  /// One entry and head in fp64.
  struct Edge {
    std::vector<double> x, source, d;                      ///< x: source + target.
    double score = 0, weight = 0, gradient = 0, drop = 1;  ///< gradient: the score's.
  };
  /// What `edges` returns is made once, since all kernels are compared with it.
  void make_edges() {
    for (std::int64_t i = 0; i < case_.rows; ++i) {
      for (int h = 0; h < case_.heads; ++h) edges_.push_back(edges_of(i, h));
    }
  }
  const std::vector<Edge>& edges(std::int64_t i, int h) const {
    return edges_[static_cast<std::size_t>(i * a_.heads + h)];
  }

 private:
  std::vector<Edge> edges_of(std::int64_t i, int h) const {
    std::vector<Edge> all;
    const auto add = [&](const DynamicBlock& block, std::int32_t j) {
      const float* const source = backward_ ? block.rows.row(i) : block.neighbours.row(j);
      const float* const target = backward_ ? block.neighbours.row(j) : block.rows.row(i);
      Edge edge;
      double dot = 0;
      for (std::int64_t c = h * case_.head_cols; c < (h + 1) * case_.head_cols; ++c) {
        edge.source.push_back(source[c]);
        edge.x.push_back(static_cast<double>(source[c]) + static_cast<double>(target[c]));
        const double slope = edge.x.back() > 0 ? 1 : static_cast<double>(a_.slope);
        edge.score += static_cast<double>(vector_.view().data[c]) * slope * edge.x.back();
        const std::int64_t shared = case_.averaged ? c - h * case_.head_cols : c;
        edge.d.push_back(target[a_.cols + shared]);
        dot += edge.d.back() * edge.source.back();
      }
      const float* const totals = target + a_.cols + a_.gradient_cols;
      if (case_.drops) {
        const auto key = block.dropout.key(i, j, backward_);
        const bool kept = noise16(key, static_cast<std::uint32_t>(h)) >= 20000;
        edge.drop = kept ? 65536.0 / (65536 - 20000) : 0;
      }
      edge.weight = std::exp(std::min(edge.score - static_cast<double>(totals[h]), 0.0));
      edge.gradient = edge.weight * (edge.drop * dot - static_cast<double>(totals[a_.heads + h]));
      all.push_back(std::move(edge));
    };
    add(a_.inner, static_cast<std::int32_t>(i));
    for (auto e = inner_csr_.offsets[i]; e < inner_csr_.offsets[i + 1]; ++e) {
      add(a_.inner, inner_csr_.columns[e]);
    }
    for (auto e = halo_csr_.offsets[i]; e < halo_csr_.offsets[i + 1]; ++e) {
      add(a_.halo, halo_csr_.columns[e]);
    }
    return all;
  }

  DynamicCase case_;
  bool backward_;
  std::mt19937 random_;
  DynamicAttention a_;
  Matrix vector_, sources_, targets_, halo_;
  Csr inner_csr_, halo_csr_;
  std::vector<std::int64_t> ids_;
  std::vector<std::vector<Edge>> edges_;  ///< [row * heads + head]
};

/// Compares with sums of terms of total size `size`.
void expect_sum(double got, double expected, double size, bool fp64, const char* name) {
  // fp64 sums are rounded to fp32 once.
  ASSERT_NEAR(got, expected, (fp64 ? 2e-7 : 4e-6) * (std::abs(expected) + (fp64 ? 1e-3 : 1) * size))
      << name;
}

void expect_forward(const DynamicCase& c, const DynamicBlocks& blocks, Kernels& kernels) {
  const DynamicAttention& a = blocks.attention();
  const bool fp64 = kernels.reproducible();
  Matrix out(c.rows, a.cols, MemoryUse::workspace, nullptr);
  Matrix log_total(c.rows, c.heads, MemoryUse::workspace, nullptr);
  kernels.dynamic_attention(a, out.view(), log_total.view());
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (int h = 0; h < c.heads; ++h) {
      const auto& edges = blocks.edges(i, h);
      double highest = edges[0].score, total = 0;
      for (const auto& e : edges) highest = std::max(highest, e.score);
      for (const auto& e : edges) total += std::exp(e.score - highest);
      expect_sum(log_total.view().row(i)[h], highest + std::log(total), 20, fp64, "L");
      for (std::int64_t k = 0; k < c.head_cols; ++k) {
        double sum = 0, size = 0;
        for (const auto& e : edges) {
          const double term =
              std::exp(e.score - highest) / total * e.drop * e.source[static_cast<std::size_t>(k)];
          sum += term;
          size += std::abs(term) * (1 + std::abs(e.score));
        }
        expect_sum(out.view().row(i)[h * c.head_cols + k], sum, size, fp64, "out");
      }
    }
  }
}

void expect_target_gradients(const DynamicCase& c, const DynamicBlocks& blocks, Kernels& kernels) {
  const DynamicAttention& a = blocks.attention();
  const bool fp64 = kernels.reproducible();
  Matrix got(c.rows, a.cols, MemoryUse::workspace, nullptr);
  DynamicGradient g_vector(a.cols, fp64);
  kernels.dynamic_attention_targets(a, got.view(), g_vector.view());
  std::vector<double> vector_sum(static_cast<std::size_t>(a.cols)), vector_size = vector_sum;
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (int h = 0; h < c.heads; ++h) {
      const auto& edges = blocks.edges(i, h);
      for (std::int64_t k = 0; k < c.head_cols; ++k) {
        const auto at = static_cast<std::size_t>(k);
        const std::int64_t col = h * c.head_cols + k;
        const double slope = static_cast<double>(a.slope);
        double sum = 0, size = 0;
        for (const auto& e : edges) {
          const double part = e.gradient * (e.x[at] > 0 ? 1 : slope);
          sum += part * static_cast<double>(a.vector[col]);
          vector_sum[static_cast<std::size_t>(col)] += part * e.x[at];
          const double scale =
              e.weight * (10 + std::abs(e.score)) * (10 + std::abs(e.gradient / e.weight));
          size += scale * std::abs(static_cast<double>(a.vector[col]));
          vector_size[static_cast<std::size_t>(col)] += scale * (1 + std::abs(e.x[at]));
        }
        expect_sum(got.view().row(i)[col], sum, size, fp64, "targets");
      }
    }
  }
  for (std::int64_t col = 0; col < a.cols; ++col) {
    const auto at = static_cast<std::size_t>(col);
    expect_sum(g_vector.at(col), vector_sum[at], vector_size[at], fp64, "vector");
  }
}

void expect_source_gradients(const DynamicCase& c, const DynamicBlocks& blocks, Kernels& kernels) {
  const DynamicAttention& a = blocks.attention();
  const bool fp64 = kernels.reproducible();
  Matrix got(c.rows, a.cols, MemoryUse::workspace, nullptr);
  kernels.dynamic_attention_sources(a, got.view());
  for (std::int64_t j = 0; j < c.rows; ++j) {
    for (int h = 0; h < c.heads; ++h) {
      const auto& edges = blocks.edges(j, h);
      for (std::int64_t k = 0; k < c.head_cols; ++k) {
        const auto at = static_cast<std::size_t>(k);
        const std::int64_t col = h * c.head_cols + k;
        const double vector = static_cast<double>(a.vector[col]);
        double sum = 0, size = 0;
        for (const auto& e : edges) {
          sum += e.weight * e.drop * e.d[at] +
                 e.gradient * vector * (e.x[at] > 0 ? 1 : static_cast<double>(a.slope));
          size += e.weight * (10 + std::abs(e.score)) * (10 + std::abs(e.gradient / e.weight)) *
                  (1 + std::abs(vector));
        }
        expect_sum(got.view().row(j)[col], sum, size, fp64, "sources");
      }
    }
  }
}

void expect_all(const DynamicCase& c) {
  SCOPED_TRACE(fmt::format("{} heads of {} columns, {} bits, averaged {}, dropout {}", c.heads,
                           c.head_cols, c.bits, c.averaged, c.drops));
  DynamicBlocks forward(c, false), backward(c, true);
  forward.make_edges();
  backward.make_edges();
  for_each_simd_target([&] {
    for (const bool fp64 : {false, true}) {
      SCOPED_TRACE(fp64 ? "fp64" : "fp32");
      const auto kernels = make_cpu_kernels(2, fp64);
      expect_forward(c, forward, *kernels);
      expect_target_gradients(c, forward, *kernels);
      expect_source_gradients(c, backward, *kernels);
    }
  });
}

TEST(DynamicAttention, SumsInnerAndDecodedRowsOnEveryTarget) {
  for (const int bits : {8, 16, 32}) {
    for (const auto& [heads, cols] : {std::pair{1, 7}, {3, 16}, {2, 100}, {4, 64}}) {
      for (const bool averaged : {false, true}) {
        expect_all({heads, cols, averaged, (bits == 16) != averaged, bits});
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// More rows than one task sums, all at once and in two ranges.
TEST(DynamicAttention, HasTheSameBitsForAnyNumberOfThreadsAndRanges) {
  const DynamicCase c{4, 64, false, true, 8, 3000};
  const DynamicBlocks forward(c, false), backward(c, true);
  for (const bool fp64 : {false, true}) {
    std::vector<Matrix> first;
    std::vector<double> first_vector;
    for (const int threads : {1, 3}) {
      const auto kernels = make_cpu_kernels(threads, fp64);
      std::vector<Matrix> all;
      for (int i = 0; i < 3; ++i) all.emplace_back(c.rows, 256, MemoryUse::workspace, nullptr);
      all.emplace_back(c.rows, 4, MemoryUse::workspace, nullptr);
      DynamicGradient g_vector(256, fp64);
      const std::int64_t cut = threads == 1 ? c.rows : 1000;
      for (const RowRange rows : {RowRange{0, cut}, {cut, c.rows}}) {
        kernels->dynamic_attention(forward.attention().row_range(rows),
                                   all[0].view().row_range(rows), all[3].view().row_range(rows));
        kernels->dynamic_attention_sources(backward.attention().row_range(rows),
                                           all[2].view().row_range(rows));
      }
      kernels->dynamic_attention_targets(forward.attention(), all[1].view(), g_vector.view());
      std::vector<double> vector;
      for (std::int64_t i = 0; i < 256; ++i) vector.push_back(g_vector.at(i));
      if (threads == 1) {
        first = std::move(all);
        first_vector = vector;
        continue;
      }
      EXPECT_EQ(vector, first_vector);
      for (std::size_t i = 0; i < all.size(); ++i) {
        test::expect_same_bits(all[i], first[i], std::to_string(i));
      }
    }
  }
}

TEST(DynamicAttention, ShowsANeighboursNaN) {
  const Matrix targets = matrix_of(2, {0, 0});
  const Matrix sources = matrix_of(2, {1, std::nanf("")});
  const std::vector<float> vector{1};
  const Csr csr{{0, 1, 1}, {1}};
  DynamicAttention a;
  a.cols = 1;
  a.vector = vector.data();
  a.inner = {csr.view(), targets.view(), sources.view(), {}, true};
  for (const bool fp64 : {false, true}) {
    Matrix out(2, 1, MemoryUse::workspace, nullptr);
    make_cpu_kernels(1, fp64)->dynamic_attention(a, out.view(), {});
    EXPECT_TRUE(std::isnan(out.view().row(0)[0]));
  }
}

}  // namespace
}  // namespace heliograph
