#include "graph/canonical.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "graph_io/fixtures.hpp"
#include "graph_io/small_graphs.hpp"
#include "support/expect_error.hpp"

namespace heliograph {
namespace {

using ::testing::ElementsAre;

const std::vector<Edge> kEdges = {{0, 1}, {1, 0}, {0, 1}, {2, 2}, {3, 1}, {1, 3}, {4, 0}};

TEST(Canonical, UndirectedByHand) {
  ImportCounts counts;
  const Graph graph = build_graph(6, EdgeList{kEdges}, false, counts);
  EXPECT_FALSE(graph.directed);
  EXPECT_THAT(list(graph.offsets), ElementsAre(0, 2, 4, 4, 5, 6, 6));
  EXPECT_THAT(list(graph.neighbours), ElementsAre(1, 4, 0, 3, 1, 0));
  EXPECT_EQ(counts.nodes, 6);
  EXPECT_EQ(counts.edges_listed, 7);
  EXPECT_EQ(counts.self_loops, 1);
  EXPECT_EQ(counts.duplicates, 3);
  EXPECT_EQ(counts.entries, 6);
  EXPECT_EQ(counts.isolated, 2);  // Node 2, whose only edge was a self-loop, and node 5.
}

TEST(Canonical, DirectedRowsListInNeighbours) {
  ImportCounts counts;
  const Graph graph = build_graph(6, EdgeList{kEdges}, true, counts);
  EXPECT_TRUE(graph.directed);
  EXPECT_THAT(list(graph.offsets), ElementsAre(0, 2, 4, 4, 5, 5, 5));
  EXPECT_THAT(list(graph.neighbours), ElementsAre(1, 4, 0, 3, 1));
  EXPECT_EQ(counts.duplicates, 1);
  EXPECT_EQ(counts.entries, 5);
  EXPECT_EQ(counts.isolated, 2);  // 4 has an out-neighbour, so it is not isolated.
}

TEST(Canonical, WeightsFollowTheirEdges) {
  // 0 - 1 twice and in reverse with one weight, a weighted self-loop, and an edge of weight 0.
  const EdgeList listed{kEdges, {0.5F, 0.5F, 0.5F, 9, -2, -2, 0}};
  ImportCounts counts;
  const Graph graph = build_graph(6, EdgeList(listed), false, counts);
  EXPECT_THAT(list(graph.neighbours), ElementsAre(1, 4, 0, 3, 1, 0));
  EXPECT_THAT(list(graph.edge_weights), ElementsAre(0.5F, 0, 0.5F, -2, -2, 0));
  EXPECT_EQ(counts.duplicates, 3);
  const Graph directed = build_graph(6, EdgeList(listed), true, counts);
  EXPECT_THAT(list(directed.neighbours), ElementsAre(1, 4, 0, 3, 1));
  EXPECT_THAT(list(directed.edge_weights), ElementsAre(0.5F, 0, 0.5F, -2, -2));
}

TEST(Canonical, WeightsOfOneAreNone) {
  ImportCounts counts;
  const EdgeList ones{{{0, 1}, {2, 2}, {1, 2}}, {1, 5, 1}};  // a self-loop's weight is dropped
  EXPECT_TRUE(build_graph(3, EdgeList(ones), false, counts).edge_weights.empty());
  EdgeList grown;
  grown.add(0, 1, 1);
  grown.add(1, 2, 1);
  EXPECT_TRUE(grown.weights.empty());
  grown.add(0, 2, 3);
  grown.add(2, 3, 1);
  EXPECT_THAT(grown.weights, ElementsAre(1, 1, 3, 1));
}

TEST(Canonical, RefusesAnEdgeWithTwoWeightsByName) {
  ImportCounts counts;
  const EdgeList asymmetric{{{3, 1}, {1, 3}}, {0.5F, 0.25F}};
  const std::string sentence = test::expect_error(ErrorCode::bad_input, "edges.csv: the edge", [&] {
    build_graph(4, EdgeList(asymmetric), false, counts, "edges.csv");
  });
  EXPECT_THAT(sentence,
              ::testing::HasSubstr("3 - 1 (nodes counted from 0) has the weights 0.25 "
                                   "and 0.5: give it one, or read it with ignore-weights; "
                                   "if they are of opposite directions, keep-direction "
                                   "keeps both"));
  EXPECT_THAT(list(build_graph(4, EdgeList(asymmetric), true, counts).edge_weights),
              ElementsAre(0.5F, 0.25F));
  const EdgeList twice{{{3, 1}, {3, 1}}, {0.5F, 0.25F}};
  test::expect_error(ErrorCode::bad_input, "3 -> 1",
                     [&] { build_graph(4, EdgeList(twice), true, counts); });
}

TEST(MakeGraph, TakesWeights) {
  const std::vector<NodeId> sources{0, 1}, targets{1, 2};
  const std::vector<float> weights{2, 0.5F}, short_one{2};
  const auto make = [&](const std::vector<float>& given) {
    return make_graph(3, sources, targets, false, nullptr, given);
  };
  EXPECT_THAT(list(make(weights).edge_weights), ElementsAre(2, 2, 0.5F, 0.5F));
  ImportCounts counts;
  make_graph(3, sources, targets, true, &counts, weights);
  EXPECT_EQ(counts.least_weight, 0.5F);
  EXPECT_EQ(counts.most_weight, 2.0F);
  EXPECT_TRUE(make({}).edge_weights.empty());
  EXPECT_TRUE(make({1, 1}).edge_weights.empty());
  test::expect_error(ErrorCode::bad_input, "2 edges and 1 weights", [&] { make(short_one); });
  for (const float bad : {std::numeric_limits<float>::infinity(), 1e-40F}) {
    test::expect_error(ErrorCode::bad_input, "edge 1 (1 -> 2) has the weight", [&] {
      make({2, bad});
    });
  }
}

TEST(Canonical, NoNodesAndNoEdges) {
  ImportCounts counts;
  EXPECT_EQ(build_graph(0, {}, false, counts).entries(), 0);
  const Graph graph = build_graph(3, {}, false, counts);
  EXPECT_EQ(graph.offsets.size(), 4u);
  EXPECT_EQ(counts.isolated, 3);
}

TEST(Canonical, AgreesWithSetsOnRandomEdges) {
  std::mt19937 random(5);
  for (const bool directed : {false, true}) {
    for (const int nodes : {1, 2, 31, 257}) {
      std::vector<Edge> edges(static_cast<std::size_t>(4 * nodes));
      std::vector<std::set<NodeId>> rows(static_cast<std::size_t>(nodes));
      std::set<Edge> distinct;
      std::int64_t loops = 0;
      for (auto& [u, v] : edges) {
        u = static_cast<NodeId>(random() % static_cast<unsigned>(nodes));
        v = static_cast<NodeId>(random() % static_cast<unsigned>(nodes));
        if (u == v) {
          ++loops;
          continue;
        }
        distinct.insert(directed ? Edge{u, v} : Edge{std::min(u, v), std::max(u, v)});
        rows[static_cast<std::size_t>(v)].insert(u);
        if (!directed) rows[static_cast<std::size_t>(u)].insert(v);
      }
      const auto listed = static_cast<std::int64_t>(edges.size());
      ImportCounts counts;
      const Graph graph = build_graph(nodes, {std::move(edges)}, directed, counts);
      EXPECT_EQ(counts.self_loops, loops);
      EXPECT_EQ(counts.duplicates, listed - loops - static_cast<std::int64_t>(distinct.size()));
      for (NodeId v = 0; v < nodes; ++v) {
        const auto first = graph.neighbours.begin() + graph.offsets[static_cast<std::size_t>(v)];
        EXPECT_EQ(std::vector<NodeId>(first, first + graph.degree(v)),
                  std::vector<NodeId>(rows[static_cast<std::size_t>(v)].begin(),
                                      rows[static_cast<std::size_t>(v)].end()));
      }
    }
  }
}

TEST(Canonical, RefusesEdgesAndSizesByName) {
  ImportCounts counts;
  test::expect_error(ErrorCode::bad_input, "edge 1 (2 -> 3)", [&] {
    build_graph(3, {{{0, 1}, {2, 3}}}, false, counts);
  });
  test::expect_error(ErrorCode::bad_input, "edge 0 (-1 -> 0)", [&] {
    build_graph(3, {{{-1, 0}}}, false, counts);
  });
  test::expect_error(ErrorCode::resource, "2^31",
                     [&] { build_graph(std::int64_t{1} << 31, {}, false, counts); });
  test::expect_error(ErrorCode::bad_input, "-1 nodes", [&] { build_graph(-1, {}, false, counts); });
}

}  // namespace
}  // namespace heliograph
