#include "core/kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

#include "core/buffer.hpp"

// Sums in which fp32 loses what fp64 keeps: 2^26 + 1 - 2^26 is 1 in fp64 and 0 in fp32. With
// `reproducible`, every kernel that sums must find the 1.

namespace heliograph {
namespace {

constexpr float kLarge = 67108864.0F;  // 2^26

Matrix matrix_of(std::initializer_list<std::initializer_list<float>> rows) {
  Matrix m(static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows.begin()->size()),
           MemoryUse::workspace, nullptr);
  std::int64_t r = 0;
  for (const auto& row : rows) std::copy(row.begin(), row.end(), m.view().row(r++));
  return m;
}

class ReproducibleKernels : public ::testing::Test {
 protected:
  static GradientView gradient(std::vector<double>& values, std::int64_t rows, std::int64_t cols) {
    values.assign(static_cast<std::size_t>(rows * cols), -7.0);
    return {nullptr, values.data(), rows, cols};
  }

  std::unique_ptr<Kernels> kernels_ = make_cpu_kernels(2, true);
};

TEST_F(ReproducibleKernels, ProductsSumInFp64) {
  const Matrix a = matrix_of({{kLarge, 1, -kLarge}});
  const Matrix ones = matrix_of({{1}, {1}, {1}});
  const Matrix ones_row = matrix_of({{1, 1, 1}});
  Matrix c = matrix_of({{5}});
  kernels_->gemm(a.view(), ones.view(), false, false, c.view());
  EXPECT_EQ(c.view().data[0], 1.0F);
  kernels_->gemm(a.view(), ones_row.view(), true, true, c.view());
  EXPECT_EQ(c.view().data[0], 2.0F);
}

TEST_F(ReproducibleKernels, WeightGradientsSumInFp64) {
  const Matrix x = matrix_of({{kLarge}, {1}, {-kLarge}});
  const Matrix d = matrix_of({{1}, {1}, {1}});
  std::vector<double> sum;
  kernels_->gemm_gradient(x.view(), d.view(), gradient(sum, 1, 1));
  EXPECT_EQ(sum[0], 1.0);
}

TEST_F(ReproducibleKernels, SparseProductsSumInFp64) {
  const std::vector<std::int64_t> offsets{0, 3};
  const std::vector<std::int32_t> columns{0, 1, 2};
  const std::vector<float> values{kLarge, 1, -kLarge};
  const SparseView x{1, 3, offsets.data(), columns.data(), values.data(), offsets[1]};
  const Matrix ones = matrix_of({{1}, {1}, {1}});
  Matrix c = matrix_of({{5}});
  kernels_->spmm(x, ones.view(), false, c.view());
  EXPECT_EQ(c.view().data[0], 1.0F);
  kernels_->spmm(x, ones.view(), true, c.view());
  EXPECT_EQ(c.view().data[0], 2.0F);

  // One row, the transpose of a column that holds the three values.
  const std::vector<std::int32_t> rows{0, 1, 2};
  const std::vector<std::int64_t> position{0, 1, 2};
  const SparseColumnsView by_column{1, offsets.data(), rows.data(), position.data()};
  std::vector<double> sum;
  kernels_->spmm_gradient(by_column, values.data(), ones.view(), gradient(sum, 1, 1));
  EXPECT_EQ(sum[0], 1.0);
}

TEST_F(ReproducibleKernels, ColumnSumsSumInFp64WithinAndAcrossTiles) {
  for (const std::int64_t rows : {3, 600}) {
    Matrix d(rows, 2, MemoryUse::workspace, nullptr);
    d.view().row(0)[1] = kLarge;
    d.view().row(1)[1] = 1;
    d.view().row(rows - 1)[1] = -kLarge;
    std::vector<double> sum;
    kernels_->column_sums(d.view(), gradient(sum, 1, 2));
    EXPECT_EQ(sum[0], 0.0);
    EXPECT_EQ(sum[1], 1.0);
  }
}

// mean = 1 / 4 exactly; fp32 sums to 0 or loses the unit.
TEST_F(ReproducibleKernels, LayerNormTakesItsStatisticsInFp64) {
  const Matrix y = matrix_of({{kLarge, 1, -kLarge, 0}, {3, 1, 3, 1}});
  const std::vector<float> zero(4, 0.0F), one(4, 1.0F);
  std::vector<float> mean(2), rstd(2);
  NormAct p;
  p.bias = zero.data();
  p.gain = one.data();
  p.shift = zero.data();
  p.mean = mean.data();
  p.rstd = rstd.data();
  Matrix out(2, 4, MemoryUse::workspace, nullptr);
  kernels_->norm_act_forward(y.view(), p, {}, out.view());
  EXPECT_EQ(mean[0], 0.25F);
  EXPECT_EQ(mean[1], 2.0F);
  EXPECT_FLOAT_EQ(rstd[1], static_cast<float>(1 / std::sqrt(1 + 1e-5)));
  EXPECT_FLOAT_EQ(out.view().row(1)[0], rstd[1]);
  EXPECT_EQ(out.view().row(1)[1], 0.0F);  // ReLU
}

TEST_F(ReproducibleKernels, BiasGradientsOfHiddenLayersSumInFp64) {
  const Matrix y = matrix_of({{1}, {1}, {1}, {-1}});
  const std::vector<float> zero(1, 0.0F);
  NormAct p;
  p.bias = zero.data();
  Matrix d = matrix_of({{kLarge}, {1}, {-kLarge}, {50}});
  std::vector<double> sum;
  NormActGradients g;
  g.bias = gradient(sum, 1, 1);
  Matrix residual(4, 1, MemoryUse::workspace, nullptr);
  kernels_->norm_act_backward(y.view(), p, d.view(), residual.view(), g);
  EXPECT_EQ(sum[0], 1.0);  // The row that ReLU set to 0 adds nothing,
  EXPECT_EQ(d.view().row(3)[0], 0.0F);
  EXPECT_EQ(residual.view().row(3)[0], 50.0F);  // but its residual passes.
}

TEST_F(ReproducibleKernels, LossesSumInFp64AndSkipOtherRows) {
  // The loss is 0 where the model is sure of the right class, and the difference of the logits
  // where it is sure of the wrong one.
  const Matrix z = matrix_of({{kLarge, 0}, {0, 0}, {9, 9}});
  const std::vector<std::int32_t> target{1, 0, -1};
  Matrix d = matrix_of({{7, 7}, {7, 7}, {7, 7}});
  const double loss = kernels_->softmax_cross_entropy(z.view(), {target.data()}, 0.5F, d.view());
  EXPECT_DOUBLE_EQ(loss, static_cast<double>(kLarge) + std::log(2.0));
  EXPECT_EQ(d.view().row(0)[0], 0.5F);
  EXPECT_EQ(d.view().row(0)[1], -0.5F);
  EXPECT_EQ(d.view().row(1)[0], -0.25F);
  EXPECT_EQ(d.view().row(2)[0], 0.0F);

  const std::vector<std::uint8_t> indicators{0, 1, 1, 0, 1, 1};
  const std::vector<std::uint8_t> mask{1, 1, 0};
  const double binary =
      kernels_->binary_cross_entropy(z.view(), indicators.data(), mask.data(), 0.5F, d.view());
  EXPECT_DOUBLE_EQ(binary, static_cast<double>(kLarge) + 3 * std::log(2.0));
  EXPECT_EQ(d.view().row(0)[0], 0.5F);
  EXPECT_EQ(d.view().row(1)[0], -0.25F);
  EXPECT_EQ(d.view().row(2)[1], 0.0F);
}

// A row whose variance overflows fp32 must not be taken for a row without spread.
TEST(Kernels, LayerNormOfAnOverflowingVarianceIsNotANumber) {
  const auto kernels = make_cpu_kernels(1, false);
  const Matrix y = matrix_of({{1e25F, -1e25F, 0, 0}});
  const std::vector<float> zero(4, 0.0F), one(4, 1.0F);
  float mean = 0, rstd = 0;
  NormAct p;
  p.bias = zero.data();
  p.gain = one.data();
  p.shift = one.data();
  p.mean = &mean;
  p.rstd = &rstd;
  Matrix out(1, 4, MemoryUse::workspace, nullptr);
  kernels->norm_act_forward(y.view(), p, {}, out.view());
  for (int c = 0; c < 4; ++c) EXPECT_TRUE(std::isnan(out.view().row(0)[c])) << c;
}

TEST(Kernels, ScratchIsCounted) {
  MemoryAccount account;
  const auto kernels = make_cpu_kernels(1, false, &account);
  Matrix d(1000, 5, MemoryUse::workspace, nullptr);
  std::vector<float> sum(5);
  kernels->column_sums(d.view(), {sum.data(), nullptr, 1, 5});
  EXPECT_EQ(account.peak(MemoryUse::workspace), 4 * 5 * 4);
}

TEST(CountedBytes, AreThoseOfTheLastSetAndEndWithTheObject) {
  MemoryAccount account;
  {
    CountedBytes counted(MemoryUse::graph, &account);
    counted.set(100);
    counted.set(40);
    EXPECT_EQ(account.live(MemoryUse::graph), 40);
  }
  EXPECT_EQ(account.live(MemoryUse::graph), 0);
  EXPECT_EQ(account.peak(MemoryUse::graph), 100);
}

}  // namespace
}  // namespace heliograph
