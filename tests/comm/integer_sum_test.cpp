#include "comm/integer_sum.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "comm/threads/transport.hpp"

namespace heliograph {
namespace {

constexpr std::size_t kBlock = IntegerSum::kBlock;

std::vector<float> gradients_of(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 3);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::ldexp(normal(random), static_cast<int>(i / kBlock) % 40 - 20);
  }
  return values;
}

/// What each of `ranks` ranks has after a sum of gradients_of, or of make(rank, count).
std::vector<std::vector<float>> sums_of(
    int ranks, int bits, std::size_t count, Clock clock = {},
    const std::function<std::vector<float>(int, std::size_t)>& make = gradients_of,
    int threads = 2) {
  std::vector<std::vector<float>> results(static_cast<std::size_t>(ranks));
  run_ranks(ranks, {}, [&](Communicator& comm) {
    ThreadPool pool(threads);
    IntegerSum sum(comm, Channel::weights, bits, 11, pool, nullptr);
    std::vector<float> values = make(comm.rank(), count);
    sum.sum(values, clock);
    results[static_cast<std::size_t>(comm.rank())] = values;
  });
  return results;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class IntegerSums : public testing::TestWithParam<std::pair<int, int>> {};
INSTANTIATE_TEST_SUITE_P(RanksAndBits, IntegerSums,
                         testing::Values(std::pair{2, 16}, std::pair{2, 8}, std::pair{2, 4},
                                         std::pair{4, 8}, std::pair{7, 16}, std::pair{7, 8},
                                         std::pair{7, 4}, std::pair{19, 4}),
                         [](const auto& test) {
                           return std::to_string(test.param.first) + "ranks" +
                                  std::to_string(test.param.second) + "bits";
                         });

TEST_P(IntegerSums, AreEqualOnAllRanksAndWithinAStepOfEachValue) {
  const auto [ranks, bits] = GetParam();
  for (const std::size_t count : {1U, 255U, 256U, 257U, 5000U}) {
    const auto results = sums_of(ranks, bits, count);
    for (const auto& result : results) EXPECT_TRUE(same_bits(result, results[0])) << count;
    std::vector<double> exact(count, 0), largest(count / kBlock + 1, 0);
    for (int r = 0; r < ranks; ++r) {
      const auto values = gradients_of(r, count);
      for (std::size_t i = 0; i < count; ++i) {
        exact[i] += values[i];
        largest[i / kBlock] = std::max(largest[i / kBlock], std::abs(double{values[i]}));
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      const double step = std::ldexp(largest[i / kBlock], 3 - bits);
      ASSERT_LE(std::abs(results[0][i] - exact[i]), ranks * step) << i << " of " << count;
    }
  }
}

TEST_P(IntegerSums, SendTheBytesThatArePredicted) {
  const auto [ranks, bits] = GetParam();
  for (const std::size_t count : {1U, 700U, 5000U}) {
    std::atomic<std::int64_t> sent = 0;
    run_ranks(ranks, {}, [&, bits = bits](Communicator& comm) {
      ThreadPool pool(1);
      IntegerSum sum(comm, Channel::weights, bits, 11, pool, nullptr);
      std::vector<float> values = gradients_of(comm.rank(), count);
      sum.sum(values, {});
      sent += comm.bytes_sent(Channel::weights);
    });
    EXPECT_EQ(sent, IntegerSum::bytes_sent(static_cast<std::int64_t>(count), bits, ranks));
  }
}

TEST_P(IntegerSums, KeepMultiplesOfTheStep) {
  const auto [ranks, bits] = GetParam();
  const int most = (1 << (bits - 1)) - 1;
  const auto make = [most](int rank, std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] =
          0.125F * static_cast<float>(static_cast<int>(i * 7 + rank) % (2 * most + 1) - most);
    }
    values[0] = -0.125F * static_cast<float>(most);  // So that the step is 1/8.
    return values;
  };
  const std::size_t count = kBlock;
  std::vector<float> exact(count, 0);
  for (int r = 0; r < ranks; ++r) {
    const auto values = make(r, count);
    for (std::size_t i = 0; i < count; ++i) exact[i] += values[i];
  }
  EXPECT_EQ(sums_of(ranks, bits, count, {}, make)[0], exact);
}

TEST_P(IntegerSums, HaveTheMeanOfTheValuesAndIndependentDrawsOfRanksAndBlocks) {
  const auto [ranks, bits] = GetParam();
  constexpr std::array kShares{0.25, -0.25, 0.5, -0.6, 0.9};  // In steps.
  const double step = std::ldexp(1.0, 1 - bits);
  const auto make = [&](int, std::size_t count) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      // The first of each block makes the step 2^(1 - bits). Both blocks have equal values.
      const std::size_t at = i % kBlock;
      values[i] = at == 0 ? 0.75F : static_cast<float>(kShares[at % kShares.size()] * step);
    }
    return values;
  };
  constexpr int kDraws = 200;
  std::array<double, kShares.size()> sum{}, squares{};
  double product = 0, terms = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    const auto result = sums_of(ranks, bits, 2 * kBlock, {draw}, make, 1)[0];
    for (std::size_t i = 1; i < kBlock; ++i, ++terms) {
      const std::size_t share = i % kShares.size();
      const double error = result[i] / step - ranks * kShares[share];
      const double other = result[kBlock + i] / step - ranks * kShares[share];
      sum[share] += error + other;
      squares[share] += error * error + other * other;
      product += error * other;
    }
  }
  const double n = 2 * terms / kShares.size();
  for (std::size_t share = 0; share < kShares.size(); ++share) {
    const double up = kShares[share] - std::floor(kShares[share]);
    const double variance = up * (1 - up) * ranks;  // Of K independent draws.
    EXPECT_NEAR(sum[share] / n, 0, 5 * std::sqrt(variance / n)) << kShares[share];
    EXPECT_NEAR(squares[share] / n, variance, 0.08 * variance) << kShares[share];
  }
  EXPECT_NEAR(product / terms, 0, 5 * 0.25 * ranks / std::sqrt(terms)) << "blocks share draws";
}

TEST(IntegerSum, DrawsDependOnTheClockAndNotOnThreads) {
  const auto one = sums_of(3, 8, 20000, {4}, gradients_of, 1);
  EXPECT_TRUE(same_bits(one[0], sums_of(3, 8, 20000, {4}, gradients_of, 3)[0]));
  EXPECT_FALSE(same_bits(one[0], sums_of(3, 8, 20000, {5}, gradients_of, 1)[0]));
}

TEST(IntegerSum, MakesABlockWithAValueThatIsNotFiniteNaN) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 1e38F}) {
    const auto make = [bad](int rank, std::size_t count) {
      std::vector<float> values(count, 1.0F);
      if (rank == 1) values[kBlock + 3] = bad;
      return values;
    };
    for (const auto& result : sums_of(3, 8, 3 * kBlock, {}, make)) {
      for (std::size_t i = 0; i < result.size(); ++i) {
        ASSERT_EQ(std::isnan(result[i]), i / kBlock == 1) << i;
      }
    }
  }
}

TEST(IntegerSum, LeavesZerosAndTheValuesOfASingleRankAlone) {
  const auto zeros = [](int, std::size_t count) { return std::vector<float>(count, 0.0F); };
  EXPECT_EQ(sums_of(4, 4, 700, {}, zeros)[2], std::vector<float>(700, 0.0F));
  EXPECT_TRUE(same_bits(sums_of(1, 4, 700)[0], gradients_of(0, 700)));
  // Values below the smallest step.
  const auto tiny = [](int, std::size_t count) { return std::vector<float>(count, 0x1p-140F); };
  const auto sums = sums_of(2, 16, 300, {}, tiny);
  for (const float v : sums[0]) {
    EXPECT_TRUE(v == 0.0F || v == 0x1p-115F || v == 0x1p-114F) << v;
  }
}

}  // namespace
}  // namespace heliograph
