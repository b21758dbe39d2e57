#include "staleness/bit_trend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace heliograph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Loss = std::function<double(int)>;

double slows_down(int epoch) { return std::exp(-0.5 * epoch); }
double falls_faster(int epoch) { return -std::exp(0.1 * epoch); }

/// What changes in 60 epochs, as "EPOCH: BITS/BITS, S, first epoch that may lag".
std::vector<std::string> changes(Bits forward, Bits backward, Bits fewest, const Loss& loss) {
  ExchangeOptions given;
  given.bits_forward = forward;
  given.bits_backward = backward;
  given.staleness = 2;
  BitTrend trend(given, fewest);
  std::vector<std::string> all;
  for (int e = 0; e < 60; ++e) {
    if (const auto next = trend.act(e)) {
      all.push_back(std::to_string(e) + ": " + std::to_string(bit_count(next->bits_forward)) + "/" +
                    std::to_string(bit_count(next->bits_backward)) + ", " +
                    std::to_string(next->staleness) + ", " + std::to_string(next->warmup_epochs));
    }
    trend.watch(loss(e));
  }
  return all;
}

// The speed of epoch 5 is the first that counts.
TEST(BitTrend, DoublesBitsAndEndsLagWhileTheLossSlowsDown) {
  EXPECT_THAT(changes(Bits::one, Bits::four, Bits::one, slows_down),
              ElementsAre("10: 2/8, 0, 11", "11: 4/8, 0, 12", "12: 8/8, 0, 13"));
  EXPECT_THAT(changes(Bits::eight, Bits::eight, Bits::one, slows_down), IsEmpty());
}

TEST(BitTrend, HalvesBitsAndBeginsLagWhileTheLossFallsFaster) {
  EXPECT_THAT(changes(Bits::eight, Bits::two, Bits::one, falls_faster),
              ElementsAre("10: 4/1, 2, 11", "11: 2/1, 2, 12", "12: 1/1, 2, 13"));
  EXPECT_THAT(changes(Bits::eight, Bits::eight, Bits::four, falls_faster),
              ElementsAre("10: 4/4, 2, 11"));
}

TEST(BitTrend, GoesBackAsTheTrendTurns) {
  const Loss turns = [](int e) { return e < 30 ? falls_faster(e) : falls_faster(30); };
  const std::vector<std::string> all = changes(Bits::two, Bits::two, Bits::one, turns);
  ASSERT_GE(all.size(), 3U);
  EXPECT_EQ(all.front(), "10: 1/1, 2, 11");
  EXPECT_THAT(all.back(), ::testing::StartsWith("37: 8/8, 0"));
}

TEST(BitTrend, ChangesNothingWithoutATrend) {
  EXPECT_THAT(changes(Bits::two, Bits::two, Bits::one, [](int) { return 1.0; }), IsEmpty());
  EXPECT_THAT(changes(Bits::two, Bits::two, Bits::one, [](int e) { return e % 2 * 1.0; }),
              IsEmpty());
}

}  // namespace
}  // namespace heliograph
