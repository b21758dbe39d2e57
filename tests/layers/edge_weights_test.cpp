#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "heliograph/io.hpp"
#include "support/graphs.hpp"
#include "support/passes.hpp"
#include "support/runs.hpp"

// What the weights of edges mean for each kind of model.

namespace heliograph {
namespace {

/// Rows of A x or, at a backward site, of A^T x on one rank.
std::vector<double> sums(const Graph& graph, ModelKind kind, const std::vector<float>& x,
                         Direction direction = Direction::forward, bool reproducible = false) {
  const Partition partition{1, std::vector<std::int32_t>(static_cast<std::size_t>(graph.nodes), 0)};
  const NodeIndex index(graph, partition);
  const Graph transposed = transpose(graph);
  const Shard shard = build_shard(index, 0, graph.directed ? &transposed : nullptr);
  const auto kernels = make_cpu_kernels(1, reproducible);
  const PlacedShard placed(shard, kernels->device(), MemoryUse::graph, nullptr);
  ModelOptions options;
  options.kind = kind;
  const GraphOperator op(placed, *kernels, propagation_of(options), MemoryUse::graph, nullptr);
  const Matrix in(graph.nodes, 1, MemoryUse::workspace, nullptr);
  const Matrix out(graph.nodes, 1, MemoryUse::workspace, nullptr);
  const BasicMatrix<double> accumulator(graph.nodes, 1, MemoryUse::workspace, nullptr);
  for (std::int64_t v = 0; v < graph.nodes; ++v) {
    in.view().row(v)[0] = x[static_cast<std::size_t>(v)];
  }
  test::NoHalo halo;
  PhaseClock clock;
  const PassContext pass{*kernels, halo, clock, {}, 11};
  Site site;
  site.direction = direction;
  op.begin_sum(pass, site, in.view(), out.view(),
               {reproducible ? accumulator.view() : AccumulatorView{}, {}}, [] {});
  op.add_halo(pass, site, out.view(), {0, graph.nodes});
  std::vector<double> result;
  for (std::int64_t v = 0; v < graph.nodes; ++v) result.push_back(out.view().row(v)[0]);
  return result;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                 const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], 2e-6) << what << ", node " << i;
  }
}

/// 0 - 1 of weight 3, 1 - 2 of weight 0.5, 3 - 4 of weight 0, and the isolated node 5.
Graph by_hand() {
  const std::vector<NodeId> sources{0, 1, 3}, targets{1, 2, 4};
  const std::vector<float> weights{3, 0.5F, 0};
  return make_graph(6, sources, targets, false, nullptr, weights);
}

TEST(EdgeWeights, ByHand) {
  const std::vector<float> x{1, 2, 4, 5, 7, 11};
  for (const bool reproducible : {false, true}) {
    const auto of = [&](ModelKind kind) {
      return sums(by_hand(), kind, x, Direction::forward, reproducible);
    };
    // Degrees with the node's own weight of 1 are 4, 4.5, 1.5, 1, 1 and 1.
    const double a = 3 / std::sqrt(4 * 4.5), b = 0.5 / std::sqrt(4.5 * 1.5);
    expect_near(of(ModelKind::gcn),
                {1 / 4.0 + 2 * a, a + 2 / 4.5 + 4 * b, 2 * b + 4 / 1.5, 5, 7, 11}, "gcn");
    // A node whose weights sum to 0 has no mean.
    expect_near(of(ModelKind::sage), {2, (3 + 0.5 * 4) / 3.5, 2, 0, 0, 0}, "sage");
    expect_near(of(ModelKind::gin), {1 + 6, 2 + 3 + 2, 4 + 1, 5, 7, 11}, "gin");
    for (const ModelKind kind :
         {ModelKind::jknet, ModelKind::appnp, ModelKind::dagnn, ModelKind::gcnii}) {
      EXPECT_EQ(of(kind), of(ModelKind::gcn)) << test::name_of(kind);
    }
  }
}

TEST(EdgeWeights, OfDirectedGraphsCountTowardsTheirTargets) {
  // 0 -> 1 of weight 3, 2 -> 1 of weight 1 and 1 -> 0 of weight 2.
  const std::vector<NodeId> sources{0, 2, 1}, targets{1, 1, 0};
  const std::vector<float> weights{3, 1, 2};
  const Graph graph = make_graph(3, sources, targets, true, nullptr, weights);
  const std::vector<float> x{1, 2, 4};
  expect_near(sums(graph, ModelKind::sage, x), {2, 7.0 / 4, 0}, "sage");
  expect_near(sums(graph, ModelKind::sage, x, Direction::backward), {3 / 4.0 * 2, 1, 0.5},
              "transposed");
  const double d0 = std::sqrt(3), d1 = std::sqrt(5), d2 = 1;
  expect_near(sums(graph, ModelKind::gcn, x),
              {1 / 3.0 + 4 / (d0 * d1), 3 / (d0 * d1) + 2 / 5.0 + 4 / (d1 * d2), 4}, "gcn");
  expect_near(sums(graph, ModelKind::gin, x, Direction::backward), {1 + 6, 2 + 2, 4 + 2}, "gin");
}

// With weights that are all equal, a mean is what it is without weights, and a sum that many times
// larger.
}  // namespace
}  // namespace heliograph
