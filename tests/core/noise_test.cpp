#include "core/noise.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace heliograph {
namespace {

using Draw = std::function<std::uint32_t(std::uint32_t)>;

std::uint64_t key_of(std::uint64_t seed, std::int64_t epoch, int layer, Direction direction,
                     std::uint64_t node) {
  return row_key(stream_key(seed, Purpose::rounding, {epoch}, site_key(layer, direction)), node);
}

/// One sequence of draws along each part of a draw's key.
std::vector<std::pair<std::string, Draw>> sequences() {
  const auto forward = Direction::forward;
  return {
      {"columns", [=](std::uint32_t i) { return noise16(key_of(1, 3, 1, forward, 9), i); }},
      {"nodes", [=](std::uint32_t i) { return noise16(key_of(1, 3, 1, forward, i), 5); }},
      {"epochs", [=](std::uint32_t i) { return noise16(key_of(1, i, 1, forward, 9), 5); }},
      {"layers",
       [=](std::uint32_t i) { return noise16(key_of(1, 3, static_cast<int>(i), forward, 9), 5); }},
      {"seeds", [=](std::uint32_t i) { return noise16(key_of(i, 3, 1, forward, 9), 5); }},
      {"columns of nodes",
       [=](std::uint32_t i) { return noise16(key_of(1, 3, 1, forward, i / 256), i % 256); }},
      {"high halves",
       [=](std::uint32_t i) { return noise16(key_of(1, 3, 1, forward, i), 16 + i % 16); }},
  };
}

constexpr std::uint32_t kDraws = 1U << 18;

/// Chi-square of counts against equal shares, in standard deviations above its expectation.
double excess(const std::vector<double>& counts, double draws) {
  const double expected = draws / static_cast<double>(counts.size());
  double chi = 0;
  for (const double count : counts) chi += (count - expected) * (count - expected) / expected;
  const double freedom = static_cast<double>(counts.size()) - 1;
  return (chi - freedom) / std::sqrt(2 * freedom);
}

TEST(Noise, HalvesOfAWordServeTheTwoHalvesOfAGroup) {
  const std::uint64_t key = 0x0123456789abcdefULL;
  for (std::uint32_t col = 0; col < 16; ++col) {
    const std::uint32_t word = noise_word(key, 16 + col);
    EXPECT_EQ(noise16(key, 32 + col), word & 0xffffU);
    EXPECT_EQ(noise16(key, 48 + col), word >> 16);
  }
}

TEST(Noise, EveryBitIsFair) {
  for (const auto& [name, draw] : sequences()) {
    std::array<double, 16> ones{};
    for (std::uint32_t i = 0; i < kDraws; ++i) {
      const std::uint32_t value = draw(i);
      ASSERT_LT(value, 65536U);
      for (std::uint32_t b = 0; b < 16; ++b) ones[b] += (value >> b) & 1U;
    }
    for (std::uint32_t b = 0; b < 16; ++b) {
      const double z = (2 * ones[b] - kDraws) / std::sqrt(static_cast<double>(kDraws));
      EXPECT_LT(std::abs(z), 5) << name << ", bit " << b;
    }
  }
}

TEST(Noise, ValuesAreUniform) {
  for (const auto& [name, draw] : sequences()) {
    std::vector<double> high(1024);
    std::vector<double> low(1024);
    for (std::uint32_t i = 0; i < kDraws; ++i) {
      const std::uint32_t value = draw(i);
      ++high[value >> 6];
      ++low[value & 1023U];
    }
    EXPECT_LT(std::abs(excess(high, kDraws)), 5) << name;
    EXPECT_LT(std::abs(excess(low, kDraws)), 5) << name;
  }
}

TEST(Noise, NeighboursAreIndependent) {
  // Pairs of draws: neighbours, halves of a word, and the same place in the next group or row.
  for (const auto& [name, draw] : sequences()) {
    std::vector<std::uint32_t> values(kDraws + 256);
    for (std::uint32_t i = 0; i < values.size(); ++i) values[i] = draw(i);
    for (const std::size_t distance : {1, 2, 15, 16, 17, 32, 64, 128, 256}) {
      std::vector<double> pairs(1024);
      double product = 0;
      for (std::size_t i = 0; i < kDraws; ++i) {
        const std::uint32_t a = values[i];
        const std::uint32_t b = values[i + distance];
        ++pairs[(a >> 11) * 32 + (b >> 11)];
        product += (a - 32767.5) * (b - 32767.5);
      }
      const double correlation = product / kDraws * 12 / (65536.0 * 65536.0);
      EXPECT_LT(std::abs(correlation) * std::sqrt(kDraws), 5) << name << ", " << distance;
      EXPECT_LT(std::abs(excess(pairs, kDraws)), 5) << name << ", " << distance;
    }
  }
}

TEST(Noise, StreamsAreIndependent) {
  // The keys differ in one of epoch, layer, direction, purpose, seed and node.
  const std::uint64_t base = stream_key(1, Purpose::rounding, {3}, site_key(1, Direction::forward));
  const std::vector<std::pair<std::string, std::uint64_t>> others = {
      {"epoch", stream_key(1, Purpose::rounding, {4}, site_key(1, Direction::forward))},
      {"layer", stream_key(1, Purpose::rounding, {3}, site_key(2, Direction::forward))},
      {"direction", stream_key(1, Purpose::rounding, {3}, site_key(1, Direction::backward))},
      {"purpose", stream_key(1, Purpose::dropout, {3}, site_key(1, Direction::forward))},
      {"seed", stream_key(2, Purpose::rounding, {3}, site_key(1, Direction::forward))},
  };
  for (const auto& [name, other] : others) {
    std::vector<double> pairs(1024);
    for (std::uint32_t i = 0; i < kDraws; ++i) {
      const std::uint32_t a = noise16(row_key(base, i / 64), i % 64);
      const std::uint32_t b = noise16(row_key(other, i / 64), i % 64);
      ++pairs[(a >> 11) * 32 + (b >> 11)];
    }
    EXPECT_LT(std::abs(excess(pairs, kDraws)), 5) << name;
  }
}

TEST(Noise, SumsOverRowsHaveTheVarianceOfIndependentDraws) {
  // Correlation between rows would show in an aggregation, which adds many of them.
  constexpr int kDegree = 64;
  constexpr int kSums = 1 << 13;
  double squares = 0;
  for (int s = 0; s < kSums; ++s) {
    double sum = 0;
    for (int j = 0; j < kDegree; ++j) {
      const auto node = static_cast<std::uint64_t>(s * kDegree + j);
      sum += noise16(key_of(1, 0, 0, Direction::forward, node), 7) / 65536.0 - 0.5;
    }
    squares += sum * sum;
  }
  const double ratio = squares / kSums / (kDegree / 12.0);
  EXPECT_NEAR(ratio, 1, 5 * std::sqrt(2.0 / kSums));
}

}  // namespace
}  // namespace heliograph
