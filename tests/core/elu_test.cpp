#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/buffer.hpp"
#include "core/cpu/rows.hpp"
#include "support/simd_targets.hpp"

namespace heliograph {
namespace {

TEST(Elu, IsAccurateNear0OnEveryTarget) {
  std::vector<float> points;
  for (double x = 1e-37; x < 110; x *= 1.002) points.push_back(static_cast<float>(-x));
  for (int i = 0; i < 20000; ++i) points.push_back(static_cast<float>(i) * -2e-4F);
  const auto below = static_cast<std::int64_t>(points.size());
  for (std::int64_t i = 0; i < below; i += 16)
    points.push_back(-points[static_cast<std::size_t>(i)]);
  const auto count = static_cast<std::int64_t>(points.size());
  NormAct p;
  p.activation = ActivationFunction::elu;
  for_each_simd_target([&] {
    const Matrix out(1, count, MemoryUse::workspace, nullptr);
    cpu::norm_act_forward_rows({points.data(), 1, count, count}, p, {}, out.view(), false, 0, 1);
    double largest = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double x = points[static_cast<std::size_t>(i)], got = out.view().data[i];
      const double expected = x > 0 ? x : std::expm1(x);
      if (expected == 0) {
        EXPECT_EQ(got, 0);
      } else {
        largest = std::max(largest, std::abs(got / expected - 1));
      }
    }
    EXPECT_LE(largest, 5e-7);
  });
}

}  // namespace
}  // namespace heliograph
