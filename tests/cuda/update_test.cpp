#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cuda/device_arrays.hpp"
#include "heliograph/error.hpp"
#include "support/expect_error.hpp"

namespace heliograph {
namespace {

class AdamTwin : public TwinTest {};

TEST_F(AdamTwin, ThreeSteps) {
  for (const std::int64_t count : {0, 1, 31, 33, 257, 100000}) {
    SCOPED_TRACE(count);
    std::vector<float> value = normal_values(count), m = normal_values(count);
    std::vector<float> v = normal_values(count);
    for (float& x : v) x = std::abs(x);
    std::vector<float> gradient = normal_values(count);
    const DeviceArray<float> device_value = on_device(value), device_m = on_device(m);
    const DeviceArray<float> device_v = on_device(v), device_gradient = on_device(gradient);
    for (int t = 0; t < 3; ++t) {
      const AdamStep step{0.01F,
                          0.9F,
                          0.999F,
                          1e-8F,
                          0.1F + 0.1F * static_cast<float>(t),
                          0.5F,
                          5e-4F,
                          0.25F,
                          t == 2 ? 0.03F : 0.0F};
      cuda->adam(device_value.data(), {device_gradient.data(), nullptr, 1, count}, device_m.data(),
                 device_v.data(), step);
      cpu->adam(value.data(), {gradient.data(), nullptr, 1, count}, m.data(), v.data(), step);
    }
    // A few fp32 operations on values below 5, fused or not; a step is up to lr / sqrt(v), and v is
    // seldom below 1e-6.
    expect_near(device_m.values(), m, 5e-6);
    expect_near(device_v.values(), v, 5e-6);
    expect_near(device_value.values(), value, 2e-5);
  }
}

TEST_F(AdamTwin, Fp64GradientsAreRefusedByName) {
  const DeviceArray<float> x = on_device(std::vector<float>(4, 1.0F));
  double on_host[4] = {};
  const auto step = [&] { cuda->adam(x.data(), {nullptr, on_host, 1, 4}, x.data(), x.data(), {}); };
  EXPECT_EQ(test::expect_error(ErrorCode::usage, "", step),
            "device cuda: its kernels keep no gradients in fp64");
}

}  // namespace
}  // namespace heliograph
