#include "core/cpu/gemm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/cpu/cpu_info.hpp"
#include "support/simd_targets.hpp"

namespace heliograph {
namespace {

float entry(std::int64_t row, std::int64_t col) {
  return static_cast<float>((row * 31 + col * 17) % 101) / 64 - 0.7F;
}

Matrix filled(std::int64_t rows, std::int64_t cols) {
  Matrix m(rows, cols, MemoryUse::workspace, nullptr);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < m.view().stride; ++c) m.view().row(r)[c] = entry(r, c);
  }
  return m;
}

/// Each element is a sum of n terms below 1. Each addition rounds once, at a sum below sqrt(n).
float tolerance(std::int64_t terms) { return 1e-7F * static_cast<float>(terms + 1); }

struct Sizes {
  std::int64_t rows, in, out;
};

constexpr Sizes kSizes[] = {{0, 3, 4},      {1, 1, 1},     {31, 33, 47},  {33, 31, 65},
                            {257, 130, 41}, {500, 602, 7}, {97, 257, 96}, {2100, 6, 129}};

/// In fp64 only the result is rounded, in fp32 every term.
double bound(bool fp64, double sum, std::int64_t terms) {
  return fp64 ? std::abs(sum) * 0x1p-23 + 0x1p-40 : tolerance(terms);
}

void expect_products(ThreadPool& threads, bool fp64) {
  for (const Sizes s : kSizes) {
    SCOPED_TRACE(::testing::Message() << s.rows << " x " << s.in << " x " << s.out);
    cpu::Gemm gemm(threads, nullptr);
    const Matrix a = filled(s.rows, s.in);
    for (const bool transpose : {false, true}) {
      const Matrix b = transpose ? filled(s.out, s.in) : filled(s.in, s.out);
      for (const bool accumulate : {false, true}) {
        const Matrix c = filled(s.rows, s.out);
        gemm.multiply(a.view(), b.view(), transpose, accumulate, c.view(), fp64);
        for (std::int64_t r = 0; r < s.rows; ++r) {
          for (std::int64_t o = 0; o < s.out; ++o) {
            double sum = accumulate ? entry(r, o) : 0.0;
            for (std::int64_t i = 0; i < s.in; ++i) {
              sum += double{entry(r, i)} * double{transpose ? entry(o, i) : entry(i, o)};
            }
            ASSERT_NEAR(c.view().row(r)[o], sum, bound(fp64, sum, s.in)) << r << ", " << o;
          }
          for (std::int64_t o = s.out; o < c.view().stride; ++o) {
            ASSERT_EQ(c.view().row(r)[o], entry(r, o)) << "padding was written";
          }
        }
      }
    }
    const Matrix d = filled(s.rows, s.out);
    const auto size = static_cast<std::size_t>(s.in * s.out);
    std::vector<float> g(size + 1, 9.0F);
    std::vector<double> g64(size + 1, 9.0);
    gemm.gradient(a.view(), d.view(),
                  {fp64 ? nullptr : g.data(), fp64 ? g64.data() : nullptr, s.in, s.out});
    if (fp64) std::copy(g64.begin(), g64.end(), g.begin());
    EXPECT_EQ(g[size], 9.0F) << "the end was overrun";
    for (std::int64_t i = 0; i < s.in; ++i) {
      for (std::int64_t o = 0; o < s.out; ++o) {
        double sum = 0;
        for (std::int64_t r = 0; r < s.rows; ++r) sum += double{entry(r, i)} * double{entry(r, o)};
        ASSERT_NEAR(g[static_cast<std::size_t>(i * s.out + o)], sum, bound(fp64, sum, s.rows))
            << i << ", " << o;
      }
    }
  }
}

TEST(Gemm, AgreesWithSumsInFp64OnEveryInstructionSet) {
  ThreadPool threads(2);
  for_each_simd_target([&] {
    expect_products(threads, false);
    expect_products(threads, true);
  });
}

TEST(Gemm, ThreadsDoNotChangeTheBits) {
  const Matrix a = filled(5000, 70);
  const Matrix w = filled(70, 50);
  const Matrix d = filled(5000, 50);
  std::vector<float> products[2], gradients[2];
  for (const int run : {0, 1}) {
    ThreadPool threads(1 + 2 * run);
    cpu::Gemm gemm(threads, nullptr);
    const Matrix c = filled(5000, 50);
    gemm.multiply(a.view(), w.view(), false, false, c.view(), false);
    products[run].assign(c.view().data, c.view().data + 5000 * c.view().stride);
    gradients[run].resize(70 * 50);
    gemm.gradient(a.view(), d.view(), {gradients[run].data(), nullptr, 70, 50});
  }
  EXPECT_EQ(products[0], products[1]);
  EXPECT_EQ(gradients[0], gradients[1]);
}

// A row's result must not depend on the rows beside it.
TEST(Gemm, RowsAreIndependentOfTheirPlace) {
  ThreadPool threads(1);
  cpu::Gemm gemm(threads, nullptr);
  const Matrix a = filled(29, 300);
  const Matrix w = filled(300, 47);
  const Matrix all = filled(29, 47);
  gemm.multiply(a.view(), w.view(), false, false, all.view(), false);
  for (const std::int64_t begin : {1, 5, 28}) {
    const Matrix some = filled(29, 47);
    gemm.multiply(a.view().row_range(begin, 29 - begin), w.view(), false, false,
                  some.view().row_range(0, 29 - begin), false);
    for (std::int64_t r = begin; r < 29; ++r) {
      EXPECT_EQ(0, std::memcmp(all.view().row(r), some.view().row(r - begin), 47 * sizeof(float)));
    }
  }
}

TEST(SimdDescription, NamesTheBestTargetThatIsCompiled) {
  // A CPU may have better instruction sets for which no kernels are compiled.
  EXPECT_TRUE(simd_description().starts_with("kernels " + simd_targets().front() + ", "))
      << simd_description();
}

}  // namespace
}  // namespace heliograph
