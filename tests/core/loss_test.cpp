#include "core/cpu/loss.hpp"

#include "support/simd_targets.hpp"
// after simd_targets
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/buffer.hpp"

// Compares the fp32 losses with their fp64 twins on every instruction set.

namespace heliograph {
namespace {

// The bound of a probability: its exponential, its division and the difference of two logits, which
// are below 40 here, each round to about 1e-7 of it.
constexpr float kProbabilityTolerance = 5e-6F;
// The bound of a row's loss, for each class that is summed.
constexpr double kLossTolerance = 5e-6;

constexpr std::int64_t kLossRows = 70;

/// Logits from sure to undecided, some of them equal.
Matrix logits_of(std::int64_t cols) {
  Matrix z(kLossRows, cols, MemoryUse::workspace, nullptr);
  std::mt19937 random(static_cast<unsigned>(cols));
  for (std::int64_t r = 0; r < kLossRows; ++r) {
    std::uniform_real_distribution<float> draw(-0.5F * static_cast<float>(r),
                                               0.5F * static_cast<float>(r));
    for (std::int64_t c = 0; c < cols; ++c) z.view().row(r)[c] = draw(random);
  }
  return z;
}

Matrix filled(std::int64_t cols) {
  Matrix d(kLossRows, cols, MemoryUse::workspace, nullptr);
  const MatrixView view = d.view();
  std::fill_n(view.data, view.rows * view.stride, 7.0F);
  return d;
}

void expect_near(const Matrix& d, const Matrix& expected, float scale) {
  for (std::int64_t r = 0; r < kLossRows; ++r) {
    for (std::int64_t c = 0; c < d.view().cols; ++c) {
      ASSERT_NEAR(d.view().row(r)[c], expected.view().row(r)[c], kProbabilityTolerance * scale)
          << "row " << r << ", column " << c;
    }
    for (std::int64_t c = d.view().cols; c < d.view().stride; ++c) {
      ASSERT_EQ(d.view().row(r)[c], 7.0F) << "padding of row " << r;
    }
  }
}

class Loss : public ::testing::TestWithParam<std::int64_t> {};

INSTANTIATE_TEST_SUITE_P(Classes, Loss, ::testing::Values(1, 2, 15, 16, 17, 31, 32, 33, 47, 257),
                         testing::PrintToStringParamName());

TEST_P(Loss, OfSoftmaxIsThatOfFp64) {
  const std::int64_t cols = GetParam();
  const Matrix z = logits_of(cols);
  std::vector<std::int32_t> target;
  for (std::int64_t r = 0; r < kLossRows; ++r) {
    target.push_back(r % 5 == 4 ? -1 : static_cast<std::int32_t>(r * 13 % cols));
  }
  Matrix expected = filled(cols);
  const double loss = cpu::softmax_cross_entropy_rows_fp64(z.view(), {target.data()}, 0.25F,
                                                           expected.view(), 1, kLossRows);
  for_each_simd_target([&] {
    Matrix d = filled(cols);
    EXPECT_NEAR(
        cpu::softmax_cross_entropy_rows(z.view(), {target.data()}, 0.25F, d.view(), 1, kLossRows),
        loss, kLossTolerance * kLossRows);
    expect_near(d, expected, 0.25F);
  });
}

/// Targets of two thirds of the rows, weights of very different sizes.
struct SoftmaxCase {
  explicit SoftmaxCase(std::int64_t cols) {
    for (std::int64_t r = 0; r < kLossRows; ++r) {
      target.push_back(r % 3 == 2 ? -1 : static_cast<std::int32_t>(r * 13 % cols));
    }
    for (std::int64_t c = 0; c < cols; ++c) {
      weights.push_back(0.25F + 0.5F * static_cast<float>(c % 7));
    }
  }
  std::vector<ClassTargets> settings() const {
    return {{target.data(), weights.data(), 0.0F},
            {target.data(), nullptr, 0.1F},
            {target.data(), weights.data(), 0.3F}};
  }
  std::vector<std::int32_t> target;
  std::vector<float> weights;
};

/// Of one row, from the definition of PyTorch's CrossEntropyLoss(weight, label_smoothing).
double loss_of_row(const float* z, std::int64_t cols, std::int64_t r, const ClassTargets& t) {
  const double top = *std::max_element(z, z + cols);
  double sum = 0;
  for (std::int64_t c = 0; c < cols; ++c) sum += std::exp(z[c] - top);
  double loss = 0;
  for (std::int64_t c = 0; c < cols; ++c) {
    const double weight = t.weights == nullptr ? 1 : t.weights[c];
    const double probability = (c == t.class_of[r] ? 1.0 - t.smoothing : 0.0) +
                               static_cast<double>(t.smoothing) / static_cast<double>(cols);
    loss -= probability * weight * (z[c] - top - std::log(sum));
  }
  return loss;
}

TEST_P(Loss, WithWeightsAndSmoothingIsThatOfTheDefinition) {
  const std::int64_t cols = GetParam();
  const Matrix z = logits_of(cols);
  const SoftmaxCase softmax(cols);
  for (const ClassTargets& targets : softmax.settings()) {
    SCOPED_TRACE(::testing::Message() << (targets.weights != nullptr) << targets.smoothing);
    double expected_loss = 0;
    Matrix expected = filled(cols);
    for (std::int64_t r = 0; r < kLossRows; ++r) {
      float* d = expected.view().row(r);
      std::fill_n(d, cols, 0.0F);
      if (targets.class_of[r] < 0) continue;
      std::vector<float> row(z.view().row(r), z.view().row(r) + cols);
      expected_loss += loss_of_row(row.data(), cols, r, targets);
      for (std::int64_t c = 0; c < cols; ++c) {
        const auto i = static_cast<std::size_t>(c);
        const auto loss_at = [&](float value) {
          std::vector<float> moved = row;
          moved[i] = value;
          return loss_of_row(moved.data(), cols, r, targets);
        };
        const float above = row[i] + 0x1p-9F, below = row[i] - 0x1p-9F;
        d[c] = static_cast<float>((loss_at(above) - loss_at(below)) /
                                  (static_cast<double>(above) - below) * 0.25);
      }
    }
    Matrix d = filled(cols);
    const double loss =
        cpu::softmax_cross_entropy_rows_fp64(z.view(), targets, 0.25F, d.view(), 0, kLossRows);
    EXPECT_NEAR(loss, expected_loss, 1e-12 * (1 + expected_loss));
    expect_near(d, expected, 1.0F);  // The error of central differences is below 1e-6.
    for_each_simd_target([&] {
      Matrix fp32 = filled(cols);
      EXPECT_NEAR(
          cpu::softmax_cross_entropy_rows(z.view(), targets, 0.25F, fp32.view(), 0, kLossRows),
          expected_loss, kLossTolerance * (1 + expected_loss));
      expect_near(fp32, d, 1.0F);
    });
  }
}

// The gradients and losses of runs that use neither keep their bits.
TEST_P(Loss, WithWeightsOf1AndNoSmoothingHasTheBitsOfNoWeights) {
  const std::int64_t cols = GetParam();
  const Matrix z = logits_of(cols);
  const SoftmaxCase softmax(cols);
  const std::vector<float> ones(static_cast<std::size_t>(cols), 1.0F);
  for_each_simd_target([&] {
    for (const auto rows :
         {cpu::softmax_cross_entropy_rows, cpu::softmax_cross_entropy_rows_fp64}) {
      Matrix d = filled(cols), expected = filled(cols);
      EXPECT_EQ(rows(z.view(), {softmax.target.data(), ones.data()}, 0.3F, d.view(), 0, kLossRows),
                rows(z.view(), {softmax.target.data()}, 0.3F, expected.view(), 0, kLossRows));
      for (std::int64_t r = 0; r < kLossRows; ++r) {
        EXPECT_TRUE(std::equal(d.view().row(r), d.view().row(r) + cols, expected.view().row(r)));
      }
    }
  });
}

TEST_P(Loss, OfSigmoidIsThatOfFp64) {
  const std::int64_t cols = GetParam();
  const Matrix z = logits_of(cols);
  std::vector<std::uint8_t> indicators, mask;
  for (std::int64_t i = 0; i < kLossRows * cols; ++i) indicators.push_back(i * 7 % 3 == 0);
  for (std::int64_t r = 0; r < kLossRows; ++r) mask.push_back(r % 5 != 4);
  Matrix expected = filled(cols);
  const double loss = cpu::binary_cross_entropy_rows_fp64(z.view(), indicators.data(), mask.data(),
                                                          0.25F, expected.view(), 1, kLossRows);
  for_each_simd_target([&] {
    Matrix d = filled(cols);
    EXPECT_NEAR(cpu::binary_cross_entropy_rows(z.view(), indicators.data(), mask.data(), 0.25F,
                                               d.view(), 1, kLossRows),
                loss, kLossTolerance * static_cast<double>(kLossRows * cols));
    expect_near(d, expected, 0.25F);
  });
}

TEST(SquaredError, IsThatOfTheRowsWithATarget) {
  const std::vector<float> z{1.5F, -2, 7, 0.25F}, target{0.5F, std::nanf(""), 7, 2.25F};
  Matrix values(4, 1, MemoryUse::workspace, nullptr), d(4, 1, MemoryUse::workspace, nullptr);
  for (std::int64_t r = 0; r < 4; ++r) values.view().row(r)[0] = z[static_cast<std::size_t>(r)];
  EXPECT_EQ(cpu::squared_error_rows(values.view(), target.data(), 0.5F, d.view(), 0, 4), 5.0);
  const float expected[] = {1, 0, 0, -2};
  for (std::int64_t r = 0; r < 4; ++r) EXPECT_EQ(d.view().row(r)[0], expected[r]) << r;
  values.view().row(0)[0] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(
      std::isfinite(cpu::squared_error_rows(values.view(), target.data(), 0.5F, d.view(), 0, 4)));
}

// The logits overflow exp, but their differences do not.
TEST(LossOfHugeLogits, StaysFinite) {
  Matrix z(1, 3, MemoryUse::workspace, nullptr);
  const float row[] = {1e30F, -1e30F, 0};
  std::copy_n(row, 3, z.view().row(0));
  const std::int32_t target = 0;
  const std::vector<std::uint8_t> indicators{1, 0, 1};
  const std::uint8_t mask = 1;
  for_each_simd_target([&] {
    Matrix d(1, 3, MemoryUse::workspace, nullptr);
    EXPECT_EQ(cpu::softmax_cross_entropy_rows(z.view(), {&target}, 1, d.view(), 0, 1), 0.0);
    for (int c = 0; c < 3; ++c) EXPECT_EQ(d.view().row(0)[c], 0.0F) << c;
    EXPECT_NEAR(
        cpu::binary_cross_entropy_rows(z.view(), indicators.data(), &mask, 1, d.view(), 0, 1),
        std::log(2.0), kLossTolerance);
    const float expected[] = {0, 0, -0.5F};
    for (int c = 0; c < 3; ++c) EXPECT_EQ(d.view().row(0)[c], expected[c]) << c;
  });
}

// SIMD maxima and exponentials may turn NaN into an ordinary number, and -Inf is a probability of
// 0, but the loss must be NaN.
TEST(LossOfWhatIsNotFinite, IsNotFinite) {
  constexpr std::int64_t kCols = 37;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (std::int64_t at = 0; at < kCols; ++at) {
      Matrix z(1, kCols, MemoryUse::workspace, nullptr);
      z.view().row(0)[at] = bad;
      const std::int32_t target = 3;
      const std::vector<std::uint8_t> indicators(kCols, 0);
      const std::uint8_t mask = 1;
      for_each_simd_target([&] {
        Matrix d(1, kCols, MemoryUse::workspace, nullptr);
        EXPECT_FALSE(
            std::isfinite(cpu::softmax_cross_entropy_rows(z.view(), {&target}, 1, d.view(), 0, 1)))
            << bad << " in column " << at;
        EXPECT_FALSE(std::isfinite(
            cpu::binary_cross_entropy_rows(z.view(), indicators.data(), &mask, 1, d.view(), 0, 1)))
            << bad << " in column " << at;
      });
      Matrix d(1, kCols, MemoryUse::workspace, nullptr);
      EXPECT_FALSE(std::isfinite(
          cpu::softmax_cross_entropy_rows_fp64(z.view(), {&target}, 1, d.view(), 0, 1)))
          << bad << " in column " << at << ", fp64";
      EXPECT_FALSE(std::isfinite(cpu::binary_cross_entropy_rows_fp64(z.view(), indicators.data(),
                                                                     &mask, 1, d.view(), 0, 1)))
          << bad << " in column " << at << ", fp64";
    }
  }
}

}  // namespace
}  // namespace heliograph
