#include "core/cpu/rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "core/noise.hpp"
#include "support/simd_targets.hpp"

// Compares row kernels with plain loops in fp64 on every instruction set.

namespace heliograph {
namespace {

constexpr std::int64_t kRows = 9;
constexpr std::int64_t kWidths[] = {1, 3, 4, 7, 8, 15, 16, 17, 31, 33, 47, 64, 100, 129, 256, 602};

class RowKernels : public ::testing::Test {
 protected:
  std::vector<float> draws(std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& v : values) v = normal_(random_);
    return values;
  }
  Matrix matrix(std::int64_t rows, std::int64_t cols) {
    Matrix m(rows, cols, MemoryUse::workspace, nullptr);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) m.view().row(r)[c] = normal_(random_);
    }
    return m;
  }

  std::mt19937 random_{17};
  std::normal_distribution<float> normal_;
};

void append(std::vector<float>& all, ConstMatrixView m) {
  for (std::int64_t r = 0; r < m.rows; ++r) all.insert(all.end(), m.row(r), m.row(r) + m.cols);
}

Matrix copy_of(ConstMatrixView m) {
  Matrix copy(m.rows, m.cols, MemoryUse::workspace, nullptr);
  for (std::int64_t r = 0; r < m.rows; ++r) std::copy_n(m.row(r), m.cols, copy.view().row(r));
  return copy;
}

/// run() on every target: near `expected`, and the same bits everywhere unless `fused` (targets
/// without fused multiply-add round products apart). A value is a chain of at most `terms`
/// roundings of numbers below `largest`.
template <class Run>
void expect_everywhere(const std::vector<double>& expected, std::int64_t terms, double largest,
                       bool fused, const Run& run) {
  const double bound = 0x1p-24 * static_cast<double>(terms) * largest;
  std::vector<float> first;
  for_each_simd_target([&] {
    const std::vector<float> values = run();
    ASSERT_EQ(values.size(), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], expected[i], bound) << "value " << i;
    }
    if (first.empty()) first = values;
    if (!fused && !first.empty()) {
      ASSERT_EQ(0, std::memcmp(values.data(), first.data(), values.size() * sizeof(float)))
          << "not the bits of the first target";
    }
  });
}

struct DropoutCase {
  std::vector<std::int64_t> ids;
  Dropout dropout;

  explicit DropoutCase(std::uint32_t threshold) {
    for (std::int64_t r = 0; r < kRows; ++r) ids.push_back(1000 + 7 * r);
    dropout = {threshold, stream_key(3, Purpose::dropout, {5}, site_key(1, Direction::forward)),
               ids.data()};
  }
  double factor(std::int64_t row, std::int64_t col) const {
    if (!dropout.active()) return 1.0;
    const auto id = static_cast<std::uint64_t>(ids[static_cast<std::size_t>(row)]);
    const std::uint32_t noise =
        noise16(row_key(dropout.stream, id), static_cast<std::uint32_t>(col));
    return noise >= dropout.threshold ? double{dropout.scale()} : 0.0;
  }
};

/// The arguments of bias, normalisation (or none), ReLU, residual and dropout for random rows.
struct NormCase {
  NormCase(const Matrix& y, const std::vector<float>& b, const std::vector<float>& g,
           const std::vector<float>& s, const DropoutCase& drop, bool norm)
      : mean(kRows), rstd(kRows) {
    p.bias = b.data();
    p.gain = norm ? g.data() : nullptr;
    p.shift = norm ? s.data() : nullptr;
    p.mean = mean.data();
    p.rstd = rstd.data();
    p.dropout = drop.dropout;
    const auto cols = static_cast<double>(y.view().cols);
    for (std::int64_t r = 0; norm && r < kRows; ++r) {
      double sum = 0;
      double squares = 0;
      for (std::int64_t c = 0; c < y.view().cols; ++c) sum += value(y, r, c);
      for (std::int64_t c = 0; c < y.view().cols; ++c) {
        squares += std::pow(value(y, r, c) - sum / cols, 2);
      }
      exact_mean.push_back(sum / cols);
      exact_rstd.push_back(1 / std::sqrt(squares / cols + 1e-5));
    }
  }
  double value(const Matrix& y, std::int64_t r, std::int64_t c) const {
    return double{y.view().row(r)[c]} + p.bias[c];
  }

  std::vector<float> mean, rstd;
  std::vector<double> exact_mean, exact_rstd;
  NormAct p;
};

TEST_F(RowKernels, NormActForwardOnEveryTarget) {
  for (const std::int64_t cols : kWidths) {
    const Matrix y = matrix(kRows, cols);
    const Matrix residual = matrix(kRows, cols);
    const auto bias = draws(cols), gain = draws(cols), shift = draws(cols);
    for (const bool norm : {false, true}) {
      for (const std::uint32_t threshold : {0U, 20000U}) {
        SCOPED_TRACE(::testing::Message() << cols << " columns, " << (norm ? "norm" : "no norm")
                                          << ", dropout " << threshold);
        const DropoutCase drop(threshold);
        NormCase n(y, bias, gain, shift, drop, norm);
        std::vector<double> expected;
        for (std::int64_t r = 0; r < kRows; ++r) {
          const auto i = static_cast<std::size_t>(r);
          for (std::int64_t c = 0; c < cols; ++c) {
            double v = n.value(y, r, c);
            if (norm) {
              v = (v - n.exact_mean[i]) * n.exact_rstd[i] * n.p.gain[c] + n.p.shift[c];
            }
            expected.push_back((std::max(v, 0.0) + residual.view().row(r)[c]) * drop.factor(r, c));
          }
        }
        // One column has no spread: its difference from the mean is exactly 0. Else the spread of
        // a row magnifies the roundings of its values and of their mean.
        double largest = 40;
        for (const double rstd : n.exact_rstd) largest = std::max(largest, 40 * rstd);
        if (norm && cols == 1) largest = 40;
        for (const bool fp64 : {false, true}) {
          expect_everywhere(expected, cols / 16 + 24, largest, false, [&] {
            const Matrix out(kRows, cols, MemoryUse::workspace, nullptr);
            cpu::norm_act_forward_rows(y.view(), n.p, residual.view(), out.view(), fp64, 0, kRows);
            std::vector<float> all;
            append(all, out.view());
            return all;
          });
        }
      }
    }
  }
}

TEST_F(RowKernels, NormActBackwardOnEveryTarget) {
  for (const std::int64_t cols : kWidths) {
    const Matrix y = matrix(kRows, cols);
    const Matrix upstream = matrix(kRows, cols);
    const auto bias = draws(cols), gain = draws(cols), shift = draws(cols);
    for (const bool norm : {false, true}) {
      SCOPED_TRACE(::testing::Message() << cols << " columns, " << (norm ? "norm" : "no norm"));
      const DropoutCase drop(20000);
      NormCase n(y, bias, gain, shift, drop, norm);
      std::vector<double> d, passed;
      std::vector<double> sums(static_cast<std::size_t>((norm ? 3 : 1) * cols), 0.0);
      for (std::int64_t r = 0; r < kRows; ++r) {
        const auto i = static_cast<std::size_t>(r);
        // The statistics are arguments here: any will do, and moderate ones keep the bound tight.
        n.mean[i] = 0.25F * static_cast<float>(r % 3);
        n.rstd[i] = 0.75F;
        std::vector<double> x, g;
        double g_mean = 0;
        double gx_mean = 0;
        for (std::int64_t c = 0; c < cols; ++c) {
          const double up = upstream.view().row(r)[c] * drop.factor(r, c);
          passed.push_back(up);
          // In fp32 as in the kernel, so that both agree on which values pass the ReLU.
          const float biased = y.view().row(r)[c] + bias[static_cast<std::size_t>(c)];
          const auto at = static_cast<std::size_t>(c);
          if (!norm) {
            d.push_back(biased > 0 ? up : 0.0);
            sums[at] += d.back();
            continue;
          }
          const float z = (biased - n.mean[i]) * n.rstd[i];
          const double dz = z * gain[at] + shift[at] > 0 ? up : 0.0;
          sums[at + static_cast<std::size_t>(cols)] += dz * z;
          sums[at + static_cast<std::size_t>(2 * cols)] += dz;
          x.push_back(z);
          g.push_back(dz * gain[at]);
          g_mean += g.back() / static_cast<double>(cols);
          gx_mean += g.back() * z / static_cast<double>(cols);
        }
        for (std::size_t c = 0; c < x.size(); ++c) {
          d.push_back(n.rstd[i] * (g[c] - g_mean - x[c] * gx_mean));
          sums[c] += d.back();
        }
      }
      std::vector<double> expected = d;
      expected.insert(expected.end(), passed.begin(), passed.end());
      expected.insert(expected.end(), sums.begin(), sums.end());
      for (const bool fp64 : {false, true}) {
        expect_everywhere(expected, cols / 16 + 24, 400, false, [&] {
          const Matrix out = copy_of(upstream.view());
          const Matrix residual(kRows, cols, MemoryUse::workspace, nullptr);
          std::vector<double> partial(static_cast<std::size_t>(4 * cols), -7.0);
          cpu::norm_act_backward_rows(y.view(), n.p, out.view(), residual.view(), partial.data(),
                                      fp64, 0, kRows);
          std::vector<float> all;
          append(all, out.view());
          append(all, residual.view());
          for (std::size_t i = 0; i < sums.size(); ++i) {
            all.push_back(fp64 ? static_cast<float>(partial[i])
                               : reinterpret_cast<const float*>(partial.data())[i]);
          }
          return all;
        });
      }
    }
  }
}

TEST_F(RowKernels, SumsAndDropoutOnEveryTarget) {
  const DropoutCase drop(30000);
  for (const std::int64_t cols : kWidths) {
    SCOPED_TRACE(cols);
    const Matrix a = matrix(kRows, cols);
    const Matrix b = matrix(kRows, cols);
    const auto bias = draws(cols);
    std::vector<double> dropped, biased, added;
    std::vector<double> sums(static_cast<std::size_t>(cols), 0.0);
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const auto at = static_cast<std::size_t>(c);
        const double x = a.view().row(r)[c];
        dropped.push_back(x * drop.factor(r, c));
        biased.push_back(x + bias[at]);
        added.push_back(x + b.view().row(r)[c]);
        sums[at] += x;
      }
    }
    const auto on_a_copy = [&](const auto& kernel) {
      return [&] {
        const Matrix out = copy_of(a.view());
        kernel(out.view());
        std::vector<float> all;
        append(all, out.view());
        return all;
      };
    };
    expect_everywhere(dropped, 2, 20, false, on_a_copy([&](MatrixView out) {
                        cpu::dropout_rows(a.view(), drop.dropout, out, 0, kRows);
                      }));
    expect_everywhere(biased, 1, 20, false, on_a_copy([&](MatrixView out) {
                        cpu::axpby_rows(1, {bias.data(), kRows, cols, 0}, 1, out, 0, kRows);
                      }));
    expect_everywhere(added, 1, 20, false, on_a_copy([&](MatrixView out) {
                        cpu::axpby_rows(1, b.view(), 1, out, 0, kRows);
                      }));
    expect_everywhere(sums, kRows, 60, false, [&] {
      std::vector<float> all(static_cast<std::size_t>(cols), -7.0F);
      cpu::column_sums_rows(a.view(), all.data(), false, 0, kRows);
      return all;
    });
    expect_everywhere(sums, kRows, 60, false, [&] {
      std::vector<double> wide(static_cast<std::size_t>(cols), -7.0);
      cpu::column_sums_rows(a.view(), wide.data(), true, 0, kRows);
      return std::vector<float>(wide.begin(), wide.end());
    });
  }
}

TEST_F(RowKernels, ActivationFunctionsAndTheirSlopesOnEveryTarget) {
  constexpr std::int64_t kPoints = 4000;
  Matrix z(1, kPoints, MemoryUse::workspace, nullptr);
  for (std::int64_t i = 0; i < kPoints; ++i) {
    z.view().row(0)[i] = static_cast<float>(i - kPoints / 2) * 0.05F;  // From -100 to 100.
  }
  const std::vector<float> bias(static_cast<std::size_t>(kPoints), 0.0F);
  for (const auto function : {ActivationFunction::none, ActivationFunction::relu,
                              ActivationFunction::gelu, ActivationFunction::elu}) {
    SCOPED_TRACE(static_cast<int>(function));
    NormAct p;
    p.bias = bias.data();
    p.activation = function;
    std::vector<double> values, slopes;
    for (std::int64_t i = 0; i < kPoints; ++i) {
      const double x = z.view().row(0)[i], normal = 0.5 * std::erfc(-x / std::sqrt(2.0));
      const double bell = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
      const bool up = x > 0;
      switch (function) {
        case ActivationFunction::none:
          values.push_back(x), slopes.push_back(1);
          break;
        case ActivationFunction::relu:
          values.push_back(up ? x : 0), slopes.push_back(up);
          break;
        case ActivationFunction::gelu:
          values.push_back(x * normal), slopes.push_back(normal + x * bell);
          break;
        case ActivationFunction::elu:
          values.push_back(up ? x : std::expm1(x)), slopes.push_back(up ? 1 : std::exp(x));
          break;
      }
    }
    expect_everywhere(values, 8, 1, false, [&] {
      const Matrix out(1, kPoints, MemoryUse::workspace, nullptr);
      cpu::norm_act_forward_rows(z.view(), p, {}, out.view(), false, 0, 1);
      std::vector<float> all;
      append(all, out.view());
      return all;
    });
    expect_everywhere(slopes, 16, 1, false, [&] {
      const Matrix d(1, kPoints, MemoryUse::workspace, nullptr);
      std::fill_n(d.view().data, kPoints, 1.0F);
      std::vector<float> partial(static_cast<std::size_t>(4 * kPoints));
      cpu::norm_act_backward_rows(z.view(), p, d.view(), {}, partial.data(), false, 0, 1);
      std::vector<float> all;
      append(all, d.view());
      return all;
    });
  }
}

TEST_F(RowKernels, SparseProductsOnEveryTarget) {
  // Five rows over eleven columns, with none, one, some and all of them filled.
  const std::vector<std::int64_t> offsets{0, 0, 1, 12, 15, 22};
  const std::vector<std::int32_t> columns{4,  0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
                                          10, 2, 3, 9, 0, 1, 5, 6, 7, 8, 10};
  const auto values = draws(22);
  const SparseView x{5, 11, offsets.data(), columns.data(), values.data(), offsets[5]};
  // The same entries as columns of the transpose: output row f sums the entries of x's row f.
  std::vector<std::int64_t> position(22);
  for (std::size_t i = 0; i < 22; ++i) position[i] = static_cast<std::int64_t>(i);
  const SparseColumnsView by_column{5, offsets.data(), columns.data(), position.data()};
  for (const std::int64_t cols : kWidths) {
    SCOPED_TRACE(cols);
    const Matrix b = matrix(11, cols);
    const Matrix before = matrix(5, cols);
    for (const bool accumulate : {false, true}) {
      std::vector<double> expected;
      for (std::int64_t r = 0; r < 5; ++r) {
        for (std::int64_t c = 0; c < cols; ++c) {
          double sum = accumulate ? double{before.view().row(r)[c]} : 0.0;
          for (auto i = static_cast<std::size_t>(offsets[static_cast<std::size_t>(r)]);
               i < static_cast<std::size_t>(offsets[static_cast<std::size_t>(r) + 1]); ++i) {
            sum += double{values[i]} * double{b.view().row(columns[i])[c]};
          }
          expected.push_back(sum);
        }
      }
      for (const bool fp64 : {false, true}) {
        expect_everywhere(expected, 24, 100, !fp64, [&] {
          const Matrix out = copy_of(before.view());
          cpu::spmm_rows(x, b.view(), accumulate, out.view(), fp64, 0, 5);
          std::vector<float> all;
          append(all, out.view());
          return all;
        });
      }
      if (accumulate) continue;
      expect_everywhere(expected, 24, 100, true, [&] {
        std::vector<float> all(static_cast<std::size_t>(5 * cols), -7.0F);
        cpu::spmm_gradient_columns(by_column, values.data(), b.view(),
                                   {all.data(), nullptr, 5, cols}, 0, 5);
        return all;
      });
      expect_everywhere(expected, 24, 100, false, [&] {
        std::vector<double> all(static_cast<std::size_t>(5 * cols), -7.0);
        cpu::spmm_gradient_columns(by_column, values.data(), b.view(),
                                   {nullptr, all.data(), 5, cols}, 0, 5);
        return std::vector<float>(all.begin(), all.end());
      });
    }
  }
}

TEST_F(RowKernels, AdamOnEveryTarget) {
  const AdamStep step{0.01F, 0.9F, 0.999F, 1e-8F, 0.19F, 0.002F, 0.05F, 0.5F, 0.125F};
  for (const std::int64_t count : kWidths) {
    SCOPED_TRACE(count);
    const auto value = draws(count), gradient = draws(count), first = draws(count);
    auto second = draws(count);
    for (float& s : second) s = std::abs(s);
    std::vector<double> expected;
    std::vector<double> moments;
    for (std::size_t i = 0; i < value.size(); ++i) {
      const double g =
          double{gradient[i]} * step.gradient_scale + double{step.weight_decay} * value[i];
      const double m = double{step.beta1} * first[i] + (1 - double{step.beta1}) * g;
      const double v = double{step.beta2} * second[i] + (1 - double{step.beta2}) * g * g;
      expected.push_back((1 - step.decoupled_decay) * value[i] -
                         step.lr * (m / step.bias_correction1) /
                             (std::sqrt(v / step.bias_correction2) + step.epsilon));
      moments.push_back(m);
      moments.push_back(v);
    }
    expected.insert(expected.end(), moments.begin(), moments.end());
    expect_everywhere(expected, 16, 20, false, [&] {
      std::vector<float> x = value, m = first, v = second;
      cpu::adam_range(x.data(), gradient.data(), m.data(), v.data(), step, count);
      for (std::size_t i = 0; i < m.size(); ++i) {
        x.push_back(m[i]);
        x.push_back(v[i]);
      }
      return x;
    });
  }
}

}  // namespace
}  // namespace heliograph
