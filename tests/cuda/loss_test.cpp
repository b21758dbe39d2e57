#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cuda/device_arrays.hpp"

namespace heliograph {
namespace {

struct LossShape {
  std::int64_t rows, classes;
};
/// With the borders of the numbers of lanes and of columns a lane that kernels have.
constexpr LossShape kLossShapes[] = {{0, 3},   {1, 1},    {31, 33},  {33, 31},  {257, 47}, {9, 257},
                                     {57, 8},  {57, 9},   {57, 16},  {57, 17},  {57, 32},  {57, 64},
                                     {57, 65}, {57, 128}, {57, 129}, {57, 256}, {20000, 5}};

/// A row's loss is a sum of up to 257 fp32 terms below 10, whose roundings mostly cancel; rows are
/// summed in fp64. Exponentials differ in their last bits.
double loss_bound(LossShape s) { return 2e-5 * static_cast<double>(s.rows) + 1e-5; }
/// Of gradients, which are at most 1 before scaling.
constexpr double kBound = 2e-6;
constexpr float kScale = 0.5F;

class LossTwin : public TwinTest {};

TEST_F(LossTwin, Softmax) {
  for (const LossShape s : kLossShapes) {
    SCOPED_TRACE(::testing::Message() << s.rows << " x " << s.classes);
    const Matrix logits = normal_matrix(s.rows, s.classes);
    const Matrix d = normal_matrix(s.rows, s.classes);
    std::vector<std::int32_t> target;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      target.push_back(r % 4 == 1 ? -1 : static_cast<std::int32_t>(r * 7 % s.classes));
    }
    const DeviceMatrix device_logits = on_device(logits), device_d = on_device(d);
    const DeviceArray<std::int32_t> device_target = on_device(target);
    const double loss = cuda->softmax_cross_entropy(device_logits.view(), {device_target.data()},
                                                    kScale, device_d.view());
    const double expected =
        cpu->softmax_cross_entropy(logits.view(), {target.data()}, kScale, d.view());
    EXPECT_NEAR(loss, expected, loss_bound(s));
    expect_near(device_d.values().view(), d.view(), kBound);
    EXPECT_EQ(loss, cuda->softmax_cross_entropy(device_logits.view(), {device_target.data()},
                                                kScale, device_d.view()));
  }
}

TEST_F(LossTwin, SoftmaxWithWeightsAndSmoothing) {
  for (const LossShape s : kLossShapes) {
    const Matrix logits = normal_matrix(s.rows, s.classes);
    std::vector<std::int32_t> target;
    std::vector<float> weights;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      target.push_back(r % 4 == 1 ? -1 : static_cast<std::int32_t>(r * 7 % s.classes));
    }
    for (std::int64_t c = 0; c < s.classes; ++c) {
      weights.push_back(0.25F + 0.5F * static_cast<float>(c % 3));
    }
    const DeviceMatrix device_logits = on_device(logits);
    const DeviceArray<std::int32_t> device_target = on_device(target);
    const DeviceArray<float> device_weights = on_device(weights);
    for (const bool weighted : {false, true}) {
      for (const float smoothing : {0.0F, 0.2F}) {
        SCOPED_TRACE(::testing::Message() << s.rows << " x " << s.classes << ", weights "
                                          << weighted << ", smoothing " << smoothing);
        const Matrix d = normal_matrix(s.rows, s.classes);
        const DeviceMatrix device_d = on_device(d);
        const double loss = cuda->softmax_cross_entropy(
            device_logits.view(),
            {device_target.data(), weighted ? device_weights.data() : nullptr, smoothing}, kScale,
            device_d.view());
        const double expected = cpu->softmax_cross_entropy(
            logits.view(), {target.data(), weighted ? weights.data() : nullptr, smoothing}, kScale,
            d.view());
        EXPECT_NEAR(loss, expected, 2 * loss_bound(s));  // Weights are below 1.5.
        expect_near(device_d.values().view(), d.view(), 2 * kBound);
      }
    }
  }
}

TEST_F(LossTwin, Binary) {
  for (const LossShape s : kLossShapes) {
    SCOPED_TRACE(::testing::Message() << s.rows << " x " << s.classes);
    const Matrix logits = normal_matrix(s.rows, s.classes);
    const Matrix d = normal_matrix(s.rows, s.classes);
    std::vector<std::uint8_t> indicators, mask;
    for (std::int64_t i = 0; i < s.rows * s.classes; ++i) indicators.push_back(i % 3 == 0 ? 1 : 0);
    for (std::int64_t r = 0; r < s.rows; ++r) mask.push_back(r % 4 == 1 ? 0 : 1);
    const DeviceMatrix device_logits = on_device(logits), device_d = on_device(d);
    const DeviceArray<std::uint8_t> device_indicators = on_device(indicators);
    const DeviceArray<std::uint8_t> device_mask = on_device(mask);
    const double loss = cuda->binary_cross_entropy(device_logits.view(), device_indicators.data(),
                                                   device_mask.data(), kScale, device_d.view());
    const double expected =
        cpu->binary_cross_entropy(logits.view(), indicators.data(), mask.data(), kScale, d.view());
    // Each class counts: as many terms as the softmax has, but none is a difference.
    EXPECT_NEAR(loss, expected, loss_bound(s) * static_cast<double>(s.classes));
    expect_near(device_d.values().view(), d.view(), kBound);
  }
}

TEST_F(LossTwin, SquaredError) {
  for (const std::int64_t rows : {0, 1, 33, 20000}) {
    SCOPED_TRACE(rows);
    const Matrix values = normal_matrix(rows, 1), d = normal_matrix(rows, 1);
    std::vector<float> target = normal_values(rows);
    for (std::size_t r = 0; r < target.size(); r += 4) target[r] = std::nanf("");
    const DeviceMatrix device_values = on_device(values), device_d = on_device(d);
    const DeviceArray<float> device_target = on_device(target);
    const double loss =
        cuda->squared_error(device_values.view(), device_target.data(), kScale, device_d.view());
    EXPECT_NEAR(loss, cpu->squared_error(values.view(), target.data(), kScale, d.view()),
                1e-12 * static_cast<double>(rows + 1) * 10);
    expect_near(device_d.values().view(), d.view(), kBound);
  }
}

TEST_F(LossTwin, LargeLogitsStayFinite) {
  Matrix logits = normal_matrix(2, 3);
  for (std::int64_t c = 0; c < 3; ++c) {
    logits.view().row(0)[c] = 1e30F * static_cast<float>(c - 1);
    logits.view().row(1)[c] = -3e38F;
  }
  const DeviceMatrix device_logits = on_device(logits), d = device_matrix(2, 3);
  const DeviceArray<std::int32_t> target = on_device(std::vector<std::int32_t>{2, 0});
  const double loss =
      cuda->softmax_cross_entropy(device_logits.view(), {target.data()}, 1, d.view());
  EXPECT_NEAR(loss, std::log(3.0), 1e-6);
}

TEST_F(LossTwin, NanAndInfinityReachTheLoss) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (const std::int64_t classes : {5, 41, 300}) {
      SCOPED_TRACE(::testing::Message() << value << " of " << classes << " classes");
      Matrix logits = normal_matrix(40, classes);
      logits.view().row(33)[4] = value;
      const DeviceMatrix device_logits = on_device(logits), d = device_matrix(40, classes);
      const DeviceArray<std::int32_t> target = on_device(std::vector<std::int32_t>(40, 1));
      const DeviceArray<std::uint8_t> indicators =
          on_device(std::vector<std::uint8_t>(static_cast<std::size_t>(40 * classes), 1));
      const DeviceArray<std::uint8_t> mask = on_device(std::vector<std::uint8_t>(40, 1));
      EXPECT_FALSE(std::isfinite(
          cuda->softmax_cross_entropy(device_logits.view(), {target.data()}, 1, d.view())));
      EXPECT_FALSE(std::isfinite(cuda->binary_cross_entropy(device_logits.view(), indicators.data(),
                                                            mask.data(), 1, d.view())));
    }
  }
}

}  // namespace
}  // namespace heliograph
