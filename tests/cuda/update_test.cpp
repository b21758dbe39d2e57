#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cuda/device_arrays.hpp"
#include "heliograph/error.hpp"
#include "support/expect_error.hpp"

namespace heliograph {
namespace {

class AdamTwin : public TwinTest {};
class UpdateTwin : public TwinTest {};

TEST_F(UpdateTwin, SumsInRankOrderHaveTheBitsOfTheHost) {
  for (const std::int64_t count : {0, 1, 33, 1000}) {
    for (const int ranks : {2, 3, 5}) {
      for (int rank = 0; rank < ranks; ++rank) {
        SCOPED_TRACE(::testing::Message() << count << " values, rank " << rank << " of " << ranks);
        const std::int64_t stride = (count + 15) / 16 * 16;
        std::vector<float> mine = normal_values(count);
        const std::vector<float> others = normal_values(stride * (ranks - 1));
        const DeviceArray<float> device_mine = on_device(mine), device_others = on_device(others);
        cuda->sum_in_rank_order(device_mine.data(), device_others.data(), count, stride, rank,
                                ranks);
        cpu->sum_in_rank_order(mine.data(), others.data(), count, stride, rank, ranks);
        EXPECT_EQ(device_mine.values(), mine);
      }
    }
  }
}

TEST_F(UpdateTwin, SumOfSquares) {
  const DeviceArray<double> device_sum = on_device(std::vector<double>(1, 3.0));
  for (const std::int64_t count : {0, 1, 33, 100000}) {
    SCOPED_TRACE(count);
    // Their squares overflow in fp32.
    std::vector<float> values = normal_values(count);
    for (float& value : values) value *= 1e30F;
    const DeviceArray<float> device_values = on_device(values);
    double sum = 3;
    cuda->sum_of_squares({device_values.data(), nullptr, 1, count}, device_sum.data());
    cpu->sum_of_squares({values.data(), nullptr, 1, count}, &sum);
    EXPECT_NEAR(device_sum.values()[0], sum, 1e-12 * sum);
    EXPECT_EQ(sum == 0, count == 0);
  }
}

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
