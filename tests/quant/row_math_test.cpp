#include "quant/row_math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

namespace heliograph {
namespace {

TEST(RowMath, ACodeIsTheWholePartPlusWhatTheNoiseRoundsUp) {
  std::mt19937 random(3);
  for (const int bits : {1, 2, 4, 8}) {
    for (const auto& [lo, hi] : {std::pair(-1.0F, 2.0F), {0.0F, 1e-30F}, {1000.5F, 1001.5F}}) {
      CodeParameters p;
      ASSERT_TRUE(choose_parameters(lo, hi, {bits, true}, p));
      std::uniform_real_distribution<float> between(lo, hi);
      for (int i = 0; i < 1000; ++i) {
        const float x = i == 0 ? lo : (i == 1 ? hi : between(random));
        const float above = x - p.minimum;
        const float t = bits == 8 ? above / p.step : above * p.inverse_step;
        const double rest = static_cast<double>(t) - std::floor(t);
        for (const std::uint32_t noise : {0U, 1U, 32767U, 32768U, 65534U, 65535U}) {
          const bool up = 65536 * rest > noise + 0.5;
          const auto code = static_cast<std::uint32_t>(std::floor(t)) + (up ? 1U : 0U);
          ASSERT_EQ(stochastic_code(x, p, bits, noise), std::min(code, max_code(bits)))
              << bits << " bits, x " << x << ", noise " << noise;
        }
      }
    }
  }
}

TEST(RowMath, TheCodeOfAStepOfZeroIsZero) {
  for (const int bits : {1, 2, 4, 8}) {
    CodeParameters p;
    ASSERT_TRUE(choose_parameters(-1.5F, -1.5F, {bits, true}, p));
    ASSERT_EQ(p.step_bits, 0);
    EXPECT_EQ(stochastic_code(-1.5F, p, bits, 0), 0U);
    EXPECT_EQ(stochastic_code(-1.5F, p, bits, 65535), 0U);
  }
}

TEST(RowMath, FiniteIsNeitherNanNorInfinite) {
  using Limits = std::numeric_limits<float>;
  for (const float x : {0.0F, -0.0F, 1.0F, Limits::max(), Limits::lowest(), Limits::denorm_min()}) {
    EXPECT_TRUE(is_finite(x)) << x;
  }
  for (const float x : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
    EXPECT_FALSE(is_finite(x)) << x;
  }
}

}  // namespace
}  // namespace heliograph
