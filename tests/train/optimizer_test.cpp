#include "train/optimizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/expect_error.hpp"

namespace heliograph {
namespace {

/// One weight matrix, which decays, and one bias, which does not, with gradients that the test
/// sets.
class OptimizerTest : public ::testing::TestWithParam<bool> {
 protected:
  OptimizerTest() : kernels_(make_cpu_kernels(1, GetParam())) {
    weight_ = parameters_.declare("weight", 3, 5, ParameterKind::weight);
    bias_ = parameters_.declare("bias", 1, 5, ParameterKind::bias);
    parameters_.allocate(GetParam(), nullptr);
    set_values();
  }

  void set_values() {
    for (const int i : {weight_, bias_}) {
      const MatrixView w = parameters_.value(i);
      for (std::int64_t j = 0; j < w.rows * w.cols; ++j) {
        w.data[j] = 0.5F - 0.1F * static_cast<float>(j);
      }
    }
  }

  void set_gradient(int step) {
    for (const int i : {weight_, bias_}) {
      const GradientView g = parameters_.gradient(i);
      for (std::int64_t j = 0; j < g.rows * g.cols; ++j) {
        const float value = gradient(step, j);
        if (g.f64 != nullptr) {
          g.f64[j] = value;
        } else {
          g.f32[j] = value;
        }
      }
    }
  }
  static float gradient(int step, std::int64_t j) {
    return static_cast<float>(std::sin(1.0 + static_cast<double>(j) + 2.0 * step));
  }

  /// Adam of one value in fp64, written from the paper's algorithm 1; `decoupled`: AdamW
  /// (Loshchilov and Hutter 2019, algorithm 2).
  static double adam(double value, std::int64_t j, int steps, double lr, double decay,
                     bool decoupled) {
    double m = 0, v = 0;
    for (int t = 1; t <= steps; ++t) {
      const double g = gradient(t, j) + (decoupled ? 0 : decay * value);
      m = 0.9 * m + 0.1 * g;
      v = 0.999 * v + 0.001 * g * g;
      if (decoupled) value *= 1 - lr * decay;
      value -= lr * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
    }
    return value;
  }

  Parameters parameters_;
  int weight_ = 0, bias_ = 0;
  std::unique_ptr<Kernels> kernels_;
};

TEST_P(OptimizerTest, StepsAreThoseOfThePapersWithDecayOfWeightsOnly) {
  for (const OptimizerKind kind : {OptimizerKind::adam, OptimizerKind::adamw}) {
    OptimizerOptions options;
    options.kind = kind;
    options.weight_decay = 0.3F;
    Optimizer optimizer(options, parameters_, 0, 1, nullptr);
    set_values();
    for (int t = 1; t <= 4; ++t) {
      set_gradient(t);
      // Ranges need not begin or end with a parameter.
      const std::int64_t size = parameters_.flat_size();
      optimizer.begin_step(0.01);
      optimizer.update(parameters_, {7, size}, *kernels_);
      optimizer.update(parameters_, {0, 7}, *kernels_);
    }
    const bool decoupled = kind == OptimizerKind::adamw;
    for (const int i : {weight_, bias_}) {
      const MatrixView w = parameters_.value(i);
      for (std::int64_t j = 0; j < w.rows * w.cols; ++j) {
        const double begin = 0.5 - 0.1 * static_cast<double>(j);
        EXPECT_NEAR(w.data[j], adam(begin, j, 4, 0.01, i == weight_ ? 0.3 : 0.0, decoupled), 1e-5)
            << parameters_.name(i) << " " << j;
      }
    }
  }
}

TEST_P(OptimizerTest, ClippingScalesAllGradientsByTheirCommonNorm) {
  set_gradient(1);
  double squares = 0;
  for (int i = 0; i < 15; ++i) squares += gradient(1, i) * gradient(1, i);
  for (int i = 0; i < 5; ++i) squares += gradient(1, i) * gradient(1, i);
  const double norm = std::sqrt(squares);

  // The first step of Adam is lr times the sign, whatever the scale. The second one depends on it.
  OptimizerOptions options;
  options.clip_norm = 0.5F;
  Optimizer optimizer(options, parameters_, 0, 1, nullptr);
  // The norm of the second step is below the bound, so nothing is scaled.
  for (const auto& [t, given] : {std::pair{1, norm}, std::pair{2, 0.25}}) {
    set_gradient(t);
    optimizer.begin_step(0.01);
    optimizer.clip(given);
    optimizer.update(parameters_, {0, parameters_.flat_size()}, *kernels_);
  }
  const MatrixView w = parameters_.value(weight_);
  for (std::int64_t j = 0; j < 15; ++j) {
    const double g1 = gradient(1, j) * 0.5 / norm;
    const double g2 = gradient(2, j);
    const double m = 0.9 * 0.1 * g1 + 0.1 * g2;
    const double v = 0.999 * 0.001 * g1 * g1 + 0.001 * g2 * g2;
    const double second = 0.01 * (m / (1 - 0.81)) / (std::sqrt(v / (1 - 0.999 * 0.999)) + 1e-8);
    const double first = 0.01 * (g1 > 0 ? 1 : -1);
    EXPECT_NEAR(w.data[j], 0.5 - 0.1 * static_cast<double>(j) - first - second, 2e-5) << j;
  }
}

TEST_P(OptimizerTest, GoesOnWithTheStateOfRangesThatCoverTheParameters) {
  const std::int64_t size = parameters_.flat_size();
  const std::int64_t half = size / 2;
  const auto step = [&](Optimizer& optimizer, int t) {
    set_gradient(t);
    optimizer.begin_step(0.01);
    optimizer.update(parameters_, {half, size}, *kernels_);
    optimizer.update(parameters_, {0, half}, *kernels_);
  };
  Optimizer whole({}, parameters_, 1, 2, nullptr), resumed({}, parameters_, 1, 2, nullptr);
  step(whole, 1);
  const auto values = [&] {
    const auto flat = parameters_.flat_values();
    return std::vector<float>(flat.begin(), flat.end());
  };
  const std::vector<float> begin = values();
  ASSERT_TRUE(resumed.resume(1, {whole.ranges().begin(), whole.ranges().end()}));
  ASSERT_EQ(resumed.first_moments().size(), whole.first_moments().size());
  std::ranges::copy(whole.first_moments(), resumed.first_moments().begin());
  std::ranges::copy(whole.second_moments(), resumed.second_moments().begin());
  step(whole, 2);
  const std::vector<float> expected = values();
  std::ranges::copy(begin, parameters_.flat_values().begin());
  step(resumed, 2);
  EXPECT_EQ(values(), expected);

  using Ranges = std::vector<Optimizer::Range>;
  for (const Ranges& bad :
       {Ranges{}, Ranges{{half, size}}, Ranges{{0, half}}, Ranges{{-1, size}},
        Ranges{{0, size + 1}}, Ranges{{0, size}, {0, size}}, Ranges{{0, half}, {half + 1, size}},
        Ranges{{0, half}, {half, half}, {half, size}}}) {
    EXPECT_FALSE(resumed.resume(1, bad)) << testing::PrintToString(bad.size());
  }
  Ranges fine;  // More of them than there is room for, as each gives this rank all of its value.
  for (std::int64_t i = 0; i < size; ++i) fine.push_back({i, i + 1});
  EXPECT_FALSE(resumed.resume(1, fine));
  ASSERT_TRUE(resumed.resume(1, {{0, half}, {half, size}}));
  test::expect_error(ErrorCode::mismatch, {"of another version", "init-from"},
                     [&] { step(resumed, 3); });
}

TEST(LearningRate, RisesInEqualStepsBeforeTheSchedule) {
  OptimizerOptions o;
  o.lr = 0.5F;
  o.lr_warmup = 4;
  const auto rate = [&](int epoch) { return learning_rate(o, epoch, 12); };
  for (const Schedule schedule : {Schedule::constant, Schedule::cosine, Schedule::step}) {
    o.schedule = schedule;
    for (int e = 0; e < 4; ++e) EXPECT_DOUBLE_EQ(rate(e), 0.125 * (e + 1)) << e;
    EXPECT_DOUBLE_EQ(rate(4), 0.5);
  }
  o.schedule = Schedule::cosine;  // over the 8 epochs that remain
  EXPECT_NEAR(rate(8), 0.25, 1e-15);
  EXPECT_NEAR(rate(11), 0.5 * 0.5 * (1 + std::cos(std::acos(-1.0) * 7 / 8)), 1e-15);
  o.schedule = Schedule::step;
  o.step_size = 3;
  EXPECT_DOUBLE_EQ(rate(6), 0.5);
  EXPECT_DOUBLE_EQ(rate(7), 0.25);
}

INSTANTIATE_TEST_SUITE_P(Gradients, OptimizerTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "fp64" : "fp32"; });

}  // namespace
}  // namespace heliograph
