#include "staleness/bit_chooser.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <vector>

#include "comm/threads/transport.hpp"
#include "support/graphs.hpp"
#include "support/sites.hpp"

namespace heliograph {
namespace {

constexpr int kChoosers = 3;
constexpr std::int64_t kColumns = 24;

/// One more bit, or the last two, of a row.
struct Step {
  double bits;   ///< That are sent more.
  double saved;  ///< Share of the site's error, times the site's weight, for each bit.
  bool taken;
};

std::vector<Site> sites_of_a_layer() {
  return {test::site(0, 1, Direction::forward, kColumns),
          test::site(1, 1, Direction::backward, kColumns)};
}

/// The steps of all rows of all ranks with this budget, and the bits that they may send.
std::pair<std::vector<Step>, double> choose(const std::string& budget, double spread) {
  const Graph graph = test::random_graph(120, 0.06, 4);
  const Partition partition = test::round_robin_partition(120, kChoosers);
  const NodeIndex index(graph, partition);
  ExchangeOptions options;
  options.bits_forward = options.bits_backward = Bits::one;
  options.auto_bits = budget;
  const std::vector<Site> sites = sites_of_a_layer();
  std::vector<std::map<std::int64_t, std::uint8_t>> bits(2);  // By node.
  std::vector<std::map<std::int64_t, double>> squares(2);
  std::mutex mutex;
  run_ranks(kChoosers, {{}, 20}, [&](Communicator& comm) {
    const Shard shard = build_shard(index, comm.rank(), nullptr);
    const ExchangePolicy policy(options, 100, sites);
    std::vector<float> scale;
    for (const std::int64_t degree : shard.in_degree)
      scale.push_back(1 / std::max(1.0F, static_cast<float>(degree)));
    BitChooser chooser(comm, shard, policy, sites, {scale, {}}, nullptr);
    std::vector<std::vector<float>> ranges(2);
    for (std::size_t s = 0; s < 2; ++s) {
      for (const std::int64_t node : shard.global_ids) {
        std::mt19937 noise(static_cast<unsigned>(node * 2) + static_cast<unsigned>(s));
        ranges[s].push_back(
            std::lognormal_distribution<float>(0, static_cast<float>(spread))(noise));
      }
    }
    const auto chosen = chooser.choose(ranges);
    const auto again = chooser.choose(ranges);
    const std::lock_guard lock(mutex);
    EXPECT_EQ(chosen, again);
    for (std::size_t s = 0; s < 2; ++s) {
      for (std::size_t r = 0; r < shard.global_ids.size(); ++r) {
        bits[s][shard.global_ids[r]] = chosen[s][r];
        squares[s][shard.global_ids[r]] = double{ranges[s][r]} * ranges[s][r];
      }
    }
  });
  // The same from the graph alone.
  std::vector<Step> steps;
  double copies_of_all = 0;
  for (std::size_t s = 0; s < 2; ++s) {
    std::vector<double> errors(120, 0), copies(120, 0);
    double sum = 0;
    for (std::int64_t u = 0; u < 120; ++u) {
      const auto at = static_cast<std::size_t>(u);
      std::vector<bool> receives(kChoosers, false);
      for (auto e = graph.offsets[at]; e < graph.offsets[at + 1]; ++e) {
        const auto v = static_cast<std::size_t>(graph.neighbours[static_cast<std::size_t>(e)]);
        const int owner = partition.owner[v];
        if (owner == partition.owner[at]) continue;
        receives[static_cast<std::size_t>(owner)] = true;
        const auto degree = static_cast<double>(graph.offsets[v + 1] - graph.offsets[v]);
        errors[at] += s == 0 ? squares[s][u] / (degree * degree) : squares[s][u];
      }
      copies[at] = static_cast<double>(std::ranges::count(receives, true));
      sum += errors[at];
      copies_of_all += copies[at];
    }
    for (std::size_t u = 0; u < 120; ++u) {
      if (copies[u] == 0) continue;
      const double share = (s == 0 ? 4 : 1) * errors[u] / sum, bit = copies[u] * kColumns;
      const std::uint8_t has = bits[s][static_cast<std::int64_t>(u)];
      steps.push_back({bit, share * (1 - 1.0 / 9) / bit, has >= 2});
      steps.push_back({2 * bit, share * (1.0 / 9 - 1.0 / 225) / (2 * bit), has == 4});
    }
  }
  const BitBudget of = *parse_bit_budget(budget);
  const double bytes = of.bytes > 0 ? static_cast<double>(of.bytes)
                                    : copies_of_all * (4 + kColumns * of.mean_bits / 8);
  const double others = copies_of_all * 4;  // Parameters.
  return {steps, 8 * (bytes - others) - copies_of_all * kColumns};
}

// Errors fall by less with each step of a row, so the best choice takes the steps that save most.
TEST(BitChooser, TakesTheStepsThatSaveMostWithinTheBudget) {
  for (const char* budget : {"auto:1.2", "auto:2", "auto:3.5", "auto:5kB"}) {
    for (const double spread : {0.2, 1.0, 3.0}) {
      SCOPED_TRACE(::testing::Message() << budget << ", spread " << spread);
      auto [steps, may_send] = choose(budget, spread);
      double sent = 0, least_taken = 1e9, most_left = 0, next = 0;
      for (const Step& step : steps) {
        if (step.taken) {
          sent += step.bits;
          least_taken = std::min(least_taken, step.saved);
        } else if (step.saved > most_left) {
          most_left = step.saved;
          next = step.bits;
        }
      }
      EXPECT_LE(sent, may_send);
      EXPECT_GT(sent + next, 0.98 * may_send);
      EXPECT_GE(least_taken, most_left * (1 - 1e-2));
    }
  }
}

}  // namespace
}  // namespace heliograph
