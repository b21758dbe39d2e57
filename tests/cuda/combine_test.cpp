#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cuda/device_arrays.hpp"

// Compares the kernels that combine matrices with their CPU twins.

namespace heliograph {
namespace {

constexpr std::int64_t kShapes[][2] = {{0, 5}, {1, 1}, {31, 33}, {257, 64}, {40, 257}, {20000, 3}};

/// A bound of sums of `terms` values of about 1.
double bound(std::int64_t terms) { return 1e-5 * (1 + std::sqrt(static_cast<double>(terms))); }

class CombineTwin : public TwinTest {
 protected:
  /// Calls body(rows, cols) for all shapes.
  template <class Body>
  static void for_shapes(const Body& body) {
    for (const auto& [rows, cols] : kShapes) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << cols);
      body(rows, cols);
    }
  }
};

GradientView gradient(float* at, std::int64_t cols) { return {at, nullptr, 1, cols}; }

TEST_F(CombineTwin, AxpbyAndAddScaled) {
  for_shapes([&](std::int64_t rows, std::int64_t cols) {
    const Matrix x = normal_matrix(rows, cols), y = normal_matrix(rows, cols);
    const DeviceMatrix device_x = on_device(x), device_y = on_device(y);
    std::vector<float> factor{0.7F};
    const DeviceArray<float> device_factor = on_device(factor);
    for (const float beta : {0.0F, 0.3F}) {
      cuda->axpby(-1.5F, device_x.view(), beta, device_y.view());
      cpu->axpby(-1.5F, x.view(), beta, y.view());
      expect_near(device_y.values().view(), y.view(), 1e-6);
    }
    cuda->add_scaled(device_factor.data(), device_x.view(), device_y.view());
    cpu->add_scaled(factor.data(), x.view(), y.view());
    expect_near(device_y.values().view(), y.view(), 1e-6);
  });
}

TEST_F(CombineTwin, Dot) {
  for_shapes([&](std::int64_t rows, std::int64_t cols) {
    const Matrix a = normal_matrix(rows, cols), b = normal_matrix(rows, cols);
    const DeviceMatrix device_a = on_device(a), device_b = on_device(b);
    std::vector<float> sum{3.0F};
    const DeviceArray<float> device_sum = on_device(sum);
    cuda->dot(device_a.view(), device_b.view(), gradient(device_sum.data(), 1));
    cpu->dot(a.view(), b.view(), gradient(sum.data(), 1));
    expect_near(device_sum.values(), sum, bound(rows * cols));
  });
}

TEST_F(CombineTwin, Gate) {
  for_shapes([&](std::int64_t rows, std::int64_t cols) {
    const Matrix x = normal_matrix(rows, cols), d = normal_matrix(rows, cols);
    const Matrix out = normal_matrix(rows, cols), dx = normal_matrix(rows, cols);
    const DeviceMatrix device_x = on_device(x), device_d = on_device(d);
    const DeviceMatrix device_out = on_device(out), device_dx = on_device(dx);
    const std::vector<float> s = normal_values(cols);
    const DeviceArray<float> device_s = on_device(s);
    std::vector<float> score(static_cast<std::size_t>(rows)), g = normal_values(cols);
    const DeviceArray<float> device_score = on_device(score), device_g = on_device(g);
    for (const bool accumulate : {false, true}) {
      cuda->gate_forward(device_x.view(), device_s.data(), device_score.data(), accumulate,
                         device_out.view());
      cpu->gate_forward(x.view(), s.data(), score.data(), accumulate, out.view());
      expect_near(device_score.values(), score, bound(cols));
      expect_near(device_out.values().view(), out.view(), 10 * bound(cols));
      cuda->gate_backward(device_x.view(), device_s.data(), device_score.data(), device_d.view(),
                          device_dx.view(), accumulate, gradient(device_g.data(), cols));
      cpu->gate_backward(x.view(), s.data(), score.data(), d.view(), dx.view(), accumulate,
                         gradient(g.data(), cols));
      expect_near(device_dx.values().view(), dx.view(), 100 * bound(cols));
      expect_near(device_g.values(), g, 100 * bound(rows * cols));
    }
  });
}

TEST_F(CombineTwin, MaximumHasTheBitsOfTheCpu) {
  for_shapes([&](std::int64_t rows, std::int64_t cols) {
    const Matrix x = normal_matrix(rows, cols), out = normal_matrix(rows, cols);
    const Matrix d = normal_matrix(rows, cols), dx = normal_matrix(rows, cols);
    const DeviceMatrix device_x = on_device(x), device_out = on_device(out);
    const DeviceMatrix device_d = on_device(d), device_dx = on_device(dx);
    cuda->max_forward(device_x.view(), device_out.view());
    cpu->max_forward(x.view(), out.view());
    expect_near(device_out.values().view(), out.view(), 0);
    cuda->max_backward(device_x.view(), device_out.view(), device_d.view(), device_dx.view());
    cpu->max_backward(x.view(), out.view(), d.view(), dx.view());
    expect_near(device_d.values().view(), d.view(), 0);
    expect_near(device_dx.values().view(), dx.view(), 0);
  });
}

TEST_F(CombineTwin, BatchNorm) {
  for_shapes([&](std::int64_t rows, std::int64_t cols) {
    const Matrix y = normal_matrix(rows, cols), d = normal_matrix(rows, cols);
    const DeviceMatrix device_y = on_device(y), device_d = on_device(d);
    std::vector<float> gain = normal_values(cols), mean = normal_values(cols);
    std::vector<float> rstd = normal_values(cols), gains = normal_values(cols);
    const DeviceArray<float> device_gain = on_device(gain), device_mean = on_device(mean);
    const DeviceArray<float> device_rstd = on_device(rstd), device_gains = on_device(gains);
    std::vector<double> expected(static_cast<std::size_t>(2 * cols), 1.0), got = expected;
    cpu->column_moments(y.view(), mean.data(), expected);
    cuda->column_moments(device_y.view(), device_mean.data(), got);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], expected[i], 1e-9 * (1 + static_cast<double>(rows)));
    }
    NormAct p, device_p;
    p.gain = gain.data(), p.mean = mean.data(), p.rstd = rstd.data();
    device_p.gain = device_gain.data(), device_p.mean = device_mean.data();
    device_p.rstd = device_rstd.data();
    cuda->batch_norm_backward(device_y.view(), device_p, device_gains.data(), device_mean.data(),
                              device_d.view());
    cpu->batch_norm_backward(y.view(), p, gains.data(), mean.data(), d.view());
    expect_near(device_d.values().view(), d.view(), 1e-4);
  });
}

}  // namespace
}  // namespace heliograph
