#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/threads/transport.hpp"
#include "layers/activation.hpp"
#include "support/graphs.hpp"
#include "support/passes.hpp"

// BatchNorm's running statistics, and what inference makes of them, against their formulas in fp64.

namespace heliograph {
namespace {

constexpr std::size_t kNodes = 10, kCols = 3;
using Rows = std::array<std::array<double, kCols>, kNodes>;

/// Values about different means in each column and pass.
Rows known(int pass) {
  Rows y;
  for (std::size_t v = 0; v < kNodes; ++v) {
    for (std::size_t c = 0; c < kCols; ++c) {
      const auto i = static_cast<double>(7 * v + 3 * c) + pass;
      y[v][c] = 4.0 * static_cast<double>(c) - pass + std::fmod(i * i, 11.0) / 8;  // Exact in fp32.
    }
  }
  return y;
}

/// Mean and biased variance of a column.
std::pair<double, double> moments(const Rows& y, std::size_t c) {
  double mean = 0, variance = 0;
  for (const auto& row : y) mean += row[c] / kNodes;
  for (const auto& row : y) variance += (row[c] - mean) * (row[c] - mean) / kNodes;
  return {mean, variance};
}

class Sum final : public RankSum {
 public:
  explicit Sum(Communicator& comm) : sum_(comm, Channel::moments) {}
  void sum(std::span<double> values) override { sum_.sum(values); }

 private:
  AllReduce sum_;
};

/// Runs two training passes and inference on one rank of `partition`, and checks all that they
/// make.
void check_rank(const Partition& partition, Communicator& comm) {
  const Graph graph = test::path_graph(kNodes);
  const NodeIndex index(graph, partition);
  const Shard shard = build_shard(index, comm.rank(), nullptr);
  const auto kernels = make_cpu_kernels(1, false);
  const PlacedShard placed(shard, kernels->device(), MemoryUse::graph, nullptr);
  const GraphOperator op(placed, *kernels, {}, MemoryUse::graph, nullptr);
  std::vector<std::size_t> nodes;  // Parts are contiguous.
  for (std::size_t v = 0; v < kNodes; ++v) {
    if (partition.owner[v] == comm.rank()) nodes.push_back(v);
  }
  const auto rows = static_cast<std::int64_t>(nodes.size());
  ASSERT_EQ(op.rows(), rows);

  Composition model(false, false);
  const ValueId y = model.add_input(kCols);
  const ValueId out =
      model.add<Activation>("norm", 0,
                            Activation::Options{.y = y,
                                                .norm = NormLayer::batch,
                                                .function = ActivationFunction::none,
                                                .other_readers = true});
  Parameters& parameters = model.parameters();
  parameters.allocate(false, nullptr);
  parameters.initialise(1, *kernels);
  const float gain[kCols] = {2, -1, 0.5F}, shift[kCols] = {0, 3, -7};
  ASSERT_EQ(parameters.name(0), "norm.norm_gain");
  std::copy_n(gain, kCols, parameters.value(0).data);
  std::copy_n(shift, kCols, parameters.value(1).data);
  const Matrix x(rows, kCols, MemoryUse::features, nullptr);
  const std::array inputs{FeatureView::of(x.view())};
  ModelMemory memory(model, {rows, rows, 2}, inputs, nullptr);
  test::NoHalo halo;
  PhaseClock clock;
  Sum sum(comm);

  const auto run = [&](PassPart part, const Rows& values) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      std::ranges::copy(values[nodes[i]], x.view().row(static_cast<std::int64_t>(i)));
    }
    const PassContext context{*kernels, halo, clock, {}, 11, &sum};
    const std::vector<RowRange> blocks{{0, rows / 2}, {rows / 2, rows}};
    const auto ignore = [](int, std::int64_t, std::int64_t, bool) {};
    memory.begin(part, rows);
    memory.set(y, inputs[0]);
    const Pass pass(context, op, memory, model, ignore);
    for (const RowRange block : blocks) model.step(0).offer(pass, block);
    model.step(0).gather(pass);
    for (const RowRange block : blocks) model.step(0).forward(pass, block);
  };
  /// The output is that of this mean and variance in each column.
  const auto expect_normalised = [&](const Rows& values, auto moments_of) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (std::size_t c = 0; c < kCols; ++c) {
        const auto [mean, variance] = moments_of(c);
        const double normal = (values[nodes[i]][c] - mean) / std::sqrt(variance + 1e-5);
        EXPECT_NEAR(memory.read(out).dense.row(static_cast<std::int64_t>(i))[c],
                    normal * gain[c] + shift[c], 1e-5);
      }
    }
  };

  std::array<double, kCols> mean{}, variance{1, 1, 1};
  for (const int pass : {0, 1}) {
    const Rows values = known(pass);
    run(PassPart::forward, values);
    expect_normalised(values, [&](std::size_t c) { return moments(values, c); });
    for (std::size_t c = 0; c < kCols; ++c) {
      const auto [of_pass, biased] = moments(values, c);
      mean[c] = 0.9 * mean[c] + 0.1 * of_pass;
      variance[c] = 0.9 * variance[c] + 0.1 * biased * kNodes / (kNodes - 1);
      EXPECT_NEAR(parameters.statistic(0).value.data[c], mean[c], 1e-6) << "pass " << pass;
      EXPECT_NEAR(parameters.statistic(1).value.data[c], variance[c], 1e-6) << "pass " << pass;
    }
  }
  const Rows values = known(2);
  run(PassPart::inference, values);
  expect_normalised(values, [&](std::size_t c) { return std::pair{mean[c], variance[c]}; });
  for (std::size_t c = 0; c < kCols; ++c) {
    EXPECT_NEAR(parameters.statistic(0).value.data[c], mean[c], 1e-6) << "inference changes none";
  }
}

TEST(BatchNorm, KeepsRunningStatisticsOfAllRanksForInference) {
  Partition whole{1, std::vector<std::int32_t>(kNodes, 0)};
  Partition with_an_empty_part{3, {0, 0, 0, 0, 2, 2, 2, 2, 2, 2}};
  for (const Partition& partition : {whole, with_an_empty_part}) {
    run_ranks(partition.parts, {}, [&](Communicator& comm) { check_rank(partition, comm); });
  }
}

}  // namespace
}  // namespace heliograph
