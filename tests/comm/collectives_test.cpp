#include "comm/collectives.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <string>

#include "comm/threads/transport.hpp"
#include "support/expect_error.hpp"
#include "support/faulty_communicator.hpp"
#include "support/recording_communicator.hpp"

namespace heliograph {
namespace {

/// The values of one rank: magnitudes far apart, so that the order of a sum shows in its bits.
std::vector<float> values_of(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 17);
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-20, 20);
  std::vector<float> values(count);
  for (float& value : values) value = std::ldexp(mantissa(random), exponent(random));
  return values;
}

class Collectives : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 4, 7),
                         testing::PrintToStringParamName());

TEST_P(Collectives, AllReduceSumsFloatsInRankOrder) {
  const int ranks = GetParam();
  for (const std::size_t count : {1U, 3U, 6U, 257U, 5000U, 40001U}) {
    std::vector<float> expected = values_of(0, count);
    for (int r = 1; r < ranks; ++r) {
      const auto values = values_of(r, count);
      for (std::size_t i = 0; i < count; ++i) expected[i] += values[i];
    }
    std::atomic<int> different = 0;
    run_ranks(ranks, {}, [&](Communicator& inner) {
      test::Faults faults;
      faults.delay_us = 100;
      faults.seed = count;
      test::FaultyCommunicator comm(inner, faults);
      AllReduce all_reduce(comm, Channel::weights);
      for (int repeat = 0; repeat < 3; ++repeat) {
        auto values = values_of(comm.rank(), count);
        all_reduce.sum(std::span<float>(values));
        if (std::memcmp(values.data(), expected.data(), count * sizeof(float)) != 0) ++different;
      }
    });
    EXPECT_EQ(different, 0) << count << " values";
  }
}

TEST_P(Collectives, AllReduceSumsDoublesAndIntegersAndNothing) {
  const int ranks = GetParam();
  run_ranks(ranks, {}, [&](Communicator& comm) {
    AllReduce all_reduce(comm, Channel::weights);
    std::vector<double> doubles(11, 0.5 * (comm.rank() + 1));
    all_reduce.sum(std::span<double>(doubles));
    EXPECT_EQ(doubles, std::vector<double>(11, 0.25 * ranks * (ranks + 1)));
    std::vector<std::int64_t> integers(5, (std::int64_t{1} << 60) / ranks + comm.rank());
    all_reduce.sum(std::span<std::int64_t>(integers));
    EXPECT_EQ(integers, std::vector<std::int64_t>(
                            5, (std::int64_t{1} << 60) / ranks * ranks + ranks * (ranks - 1) / 2));
    all_reduce.sum(std::span<float>());
  });
}

// Ranks begin at different times and their messages take different times, so each rank finds other
// messages done when it goes on. The order in which it posts must not depend on that.
TEST_P(Collectives, SumsUnderWayTogetherAreThoseOfOneAfterTheOther) {
  const int ranks = GetParam();
  const std::vector<std::size_t> counts = {1, 5000, 3, 0, 40001, 257, 9000};
  std::atomic<int> different = 0;
  for (const bool reorder : {false, true}) {
    run_ranks(ranks, {}, [&](Communicator& inner) {
      test::Faults faults;
      faults.delay_us = 300;
      faults.reorder = reorder;
      faults.seed = 5;
      test::FaultyCommunicator comm(inner, faults);
      AllReduce together(comm, Channel::weights);
      AllReduce alone(inner, Channel::evaluation);
      for (int repeat = 0; repeat < 4; ++repeat) {
        std::vector<std::vector<float>> begun, summed;
        for (const std::size_t count : counts) {
          begun.push_back(values_of(comm.rank() + 100 * repeat, count));
        }
        summed = begun;
        double loss = 0.25 * comm.rank();
        together.begin(std::span<double>(&loss, 1));
        for (std::vector<float>& values : begun) together.begin(std::span<float>(values));
        together.finish();
        for (std::vector<float>& values : summed) alone.sum(std::span<float>(values));
        for (std::size_t i = 0; i < counts.size(); ++i) {
          const std::size_t bytes = counts[i] * sizeof(float);
          if (bytes > 0 && std::memcmp(begun[i].data(), summed[i].data(), bytes) != 0) ++different;
        }
        if (loss != 0.125 * ranks * (ranks - 1)) ++different;
      }
    });
  }
  EXPECT_EQ(different, 0);
}

// Each rank doubles the sums of its block. Sums begin, are released and finish in several orders.
TEST_P(Collectives, ResultsOfSumsAreMadeByOneRankAndGathered) {
  const int ranks = GetParam();
  const std::vector<std::size_t> counts = {5000, 3, 40001, 257};
  std::atomic<int> different = 0;
  for (const std::size_t released_after : {1U, 2U, 9U}) {
    run_ranks(ranks, {}, [&](Communicator& inner) {
      test::Faults faults;
      faults.delay_us = 200;
      faults.reorder = released_after == 2;
      test::FaultyCommunicator comm(inner, faults);
      std::vector<std::vector<float>> values, results;
      AllReduce all_reduce(comm, Channel::weights, nullptr, [&](std::size_t sum) {
        const auto [begin, end] = AllReduce::block(counts[sum], comm.rank(), ranks);
        for (std::size_t i = begin; i < end; ++i) {
          results[sum][i] = 2 * values[sum][i];
        }
      });
      for (int repeat = 0; repeat < 3; ++repeat) {
        values.clear();
        results.clear();
        std::vector<std::vector<float>> expected;
        for (const std::size_t count : counts) {
          values.push_back(values_of(comm.rank(), count));
          results.emplace_back(count, -1.0F);
          expected.push_back(values_of(0, count));
          for (int r = 1; r < ranks; ++r) {
            const auto others = values_of(r, count);
            for (std::size_t i = 0; i < count; ++i) expected.back()[i] += others[i];
          }
        }
        for (std::size_t i = 0; i < counts.size(); ++i) {
          all_reduce.begin(std::span<float>(values[i]), std::span<float>(results[i]));
          EXPECT_EQ(results[i], std::vector<float>(counts[i], -1.0F)) << "is not released";
          if (i + 1 >= released_after) all_reduce.release();
        }
        if (released_after > counts.size()) {
          all_reduce.finish_sums();
          for (std::size_t i = 0; i < counts.size(); ++i) {
            const auto [begin, end] = AllReduce::block(counts[i], comm.rank(), ranks);
            for (std::size_t j = begin; j < end; ++j) {
              if (values[i][j] != expected[i][j]) ++different;
            }
            EXPECT_EQ(results[i], std::vector<float>(counts[i], -1.0F)) << "is not released";
          }
        }
        all_reduce.finish();
        for (std::size_t i = 0; i < counts.size(); ++i) {
          for (std::size_t j = 0; j < counts[i]; ++j) {
            if (results[i][j] != 2 * expected[i][j]) ++different;
          }
        }
      }
    });
  }
  EXPECT_EQ(different, 0);
}

TEST(AllReduce, MessagesHaveOneOrderWhateverIsDone) {
  /// `done` says that a ticket is done only when the test wants it to.
  class Slow final : public Communicator {
   public:
    explicit Slow(bool ready) : ready_(ready) {}
    int rank() const override { return 0; }
    int size() const override { return 2; }
    Ticket post(Channel, std::span<const SendMessage> sends,
                std::span<const RecvMessage>) override {
      sizes.push_back(sends[0].bytes);
      return {sizes.size()};
    }
    void wait(Ticket ticket) override { waited_ = std::max(waited_, ticket.id); }
    bool done(Ticket ticket) override { return ready_ || ticket.id <= waited_; }
    void abort(const std::string&) noexcept override {}
    std::int64_t bytes_sent(Channel) const override { return 0; }
    std::vector<std::size_t> sizes;

   private:
    bool ready_;
    std::uint64_t waited_ = 0;
  };
  const auto order = [](bool ready) {
    Slow comm(ready);
    AllReduce all_reduce(comm, Channel::weights);
    std::vector<std::vector<float>> values;
    for (const std::size_t count : {2U, 22U, 42U, 62U}) values.emplace_back(count + 1);
    for (auto& v : values) all_reduce.begin(std::span<float>(v));
    all_reduce.finish();
    return comm.sizes;
  };
  // A rank of two sends the larger half of an odd number of values, then gathers the smaller.
  const std::vector<std::size_t> expected = {8, 48, 4, 88, 44, 128, 84, 124};
  EXPECT_EQ(order(true), expected);
  EXPECT_EQ(order(false), expected);

  // Results are released after the third sum has begun, so the gathers of the first two come before
  // the fourth scatter, and no gather comes earlier.
  const auto order_of_results = [](bool ready) {
    Slow comm(ready);
    AllReduce all_reduce(comm, Channel::weights, nullptr, [](auto...) {});
    std::vector<std::vector<float>> values, results;
    for (const std::size_t count : {2U, 22U, 42U, 62U}) {
      values.emplace_back(count + 1);
      results.emplace_back(count + 1);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      all_reduce.begin(std::span<float>(values[i]), std::span<float>(results[i]));
      if (i == 2) all_reduce.release();
    }
    all_reduce.finish();
    return comm.sizes;
  };
  const std::vector<std::size_t> late = {8, 48, 88, 4, 44, 128, 84, 124};
  EXPECT_EQ(order_of_results(true), late);
  EXPECT_EQ(order_of_results(false), late);
}

TEST(AllReduce, EndsTheRunWhenItGoesWithSumsUnderWay) {
  test::RecordingCommunicator comm(0, 2);
  std::vector<float> values(10);
  {
    AllReduce all_reduce(comm, Channel::weights);
    all_reduce.begin(std::span<float>(values));
    all_reduce.finish();
  }
  EXPECT_EQ(comm.aborted, "");
  {
    AllReduce all_reduce(comm, Channel::weights);
    all_reduce.begin(std::span<float>(values));
  }
  EXPECT_NE(comm.aborted, "");
}

TEST_P(Collectives, AllReduceSendsTheBytesItPromises) {
  const int ranks = GetParam();
  run_ranks(ranks, {}, [&](Communicator& comm) {
    AllReduce all_reduce(comm, Channel::weights);
    std::vector<float> values(static_cast<std::size_t>(ranks) * 100, 1.0F);
    all_reduce.sum(std::span<float>(values));
    EXPECT_EQ(comm.bytes_sent(Channel::weights), 2 * (ranks - 1) * 100 * 4);
    EXPECT_EQ(comm.bytes_sent(Channel::halo), 0);
  });
}

TEST_P(Collectives, BarrierHoldsUntilAllHaveCome) {
  const int ranks = GetParam();
  std::atomic<int> arrived = 0;
  std::atomic<int> early = 0;
  run_ranks(ranks, {}, [&](Communicator& inner) {
    test::Faults faults;
    faults.delay_us = 500;
    test::FaultyCommunicator comm(inner, faults);
    for (int round = 1; round <= 10; ++round) {
      ++arrived;
      barrier(comm, Channel::evaluation);
      if (arrived < round * ranks) ++early;
      barrier(comm, Channel::evaluation);
    }
  });
  EXPECT_EQ(early, 0);
}

TEST_P(Collectives, GatherConcatenatesInRankOrder) {
  const int ranks = GetParam();
  std::string expected;
  for (int r = 0; r < ranks; ++r) {
    // Rank 1 has nothing to contribute.
    if (r != 1)
      expected += std::string(static_cast<std::size_t>(r) * 7 + 1, static_cast<char>('a' + r));
  }
  run_ranks(ranks, {}, [&](Communicator& comm) {
    const auto bytes = static_cast<std::size_t>(comm.rank()) * 7 + 1;
    const std::vector<std::byte> mine(comm.rank() == 1 ? 0 : bytes,
                                      static_cast<std::byte>('a' + comm.rank()));
    const auto all = gather_to_root(comm, Channel::evaluation, mine);
    const std::string text(reinterpret_cast<const char*>(all.data()), all.size());
    EXPECT_EQ(text, comm.rank() == 0 ? expected : "");
  });
}

TEST(AllReduce, DifferentSizesAreAnError) {
  test::expect_error(ErrorCode::peer_lost, "weights channel", [] {
    run_ranks(2, {}, [](Communicator& comm) {
      AllReduce all_reduce(comm, Channel::weights);
      std::vector<float> values(comm.rank() == 0 ? 100 : 104);
      all_reduce.sum(std::span<float>(values));
    });
  });
}

}  // namespace
}  // namespace heliograph
