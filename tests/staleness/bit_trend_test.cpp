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

double slows_down(int epoch) { return std::exp(-0.1 * epoch); }
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

// The mean lags behind the losses, so its changes grow at first.
TEST(BitTrend, DoublesBitsAndEndsLagWhileTheLossSlowsDown) {
  EXPECT_THAT(changes(Bits::one, Bits::four, Bits::one, slows_down),
              ElementsAre("15: 2/8, 0, 16", "16: 4/8, 0, 17", "17: 8/8, 0, 18"));
  EXPECT_THAT(changes(Bits::eight, Bits::eight, Bits::one, slows_down), IsEmpty());
}

// Of the changes of the mean, that of epoch 9 is the first that counts.
TEST(BitTrend, HalvesBitsAndBeginsLagWhileTheLossFallsFaster) {
  EXPECT_THAT(changes(Bits::eight, Bits::two, Bits::one, falls_faster),
              ElementsAre("14: 4/1, 2, 15", "15: 2/1, 2, 16", "16: 1/1, 2, 17"));
  EXPECT_THAT(changes(Bits::eight, Bits::eight, Bits::four, falls_faster),
              ElementsAre("14: 4/4, 2, 15"));
}

TEST(BitTrend, GoesBackAsTheTrendTurns) {
  const Loss turns = [](int e) { return e < 30 ? falls_faster(e) : falls_faster(30); };
  const std::vector<std::string> all = changes(Bits::two, Bits::two, Bits::one, turns);
  ASSERT_GE(all.size(), 3U);
  EXPECT_EQ(all.front(), "14: 1/1, 2, 15");
  EXPECT_THAT(all.back(), ::testing::StartsWith("37: 8/8, 0"));
}

TEST(BitTrend, ChangesNothingWithoutATrend) {
  EXPECT_THAT(changes(Bits::two, Bits::two, Bits::one, [](int) { return 1.0; }), IsEmpty());
  EXPECT_THAT(changes(Bits::two, Bits::two, Bits::one, [](int e) { return e % 2 * 1.0; }),
              IsEmpty());
}

}  // namespace
}  // namespace heliograph
