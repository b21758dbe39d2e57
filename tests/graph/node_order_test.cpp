#include "graph/partition/node_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "core/noise.hpp"
#include "graph/shard.hpp"
#include "heliograph/error.hpp"
#include "support/expect_error.hpp"
#include "support/graphs.hpp"

namespace heliograph {
namespace {

using test::Edge;

/// Groups of equal size, each a ring with chords, and a few edges between groups. Node v is in
/// group v % groups, so neighbouring ids say nothing about groups.
Graph grouped_graph(int groups, int size) {
  std::vector<Edge> edges;
  const NodeId nodes = groups * size;
  for (NodeId v = 0; v < nodes; ++v) {
    for (const int step : {1, 2, 3, 5}) edges.emplace_back(v, (v + step * groups) % nodes);
    if (v % 7 == 0) edges.emplace_back(v, (v + 1) % nodes);
  }
  // The steps above wrap within the group, since `nodes` is a multiple of `groups`.
  return test::graph_from_edges(nodes, edges);
}

/// The share of edges whose ends lie at most `window` places apart.
double near_share(const Graph& graph, const std::vector<NodeId>& order, std::int64_t window) {
  std::vector<std::int64_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  std::int64_t near = 0;
  for (const auto& [u, v] : test::edges_of(graph)) {
    const auto apart = place[static_cast<std::size_t>(u)] - place[static_cast<std::size_t>(v)];
    near += std::abs(apart) <= window ? 1 : 0;
  }
  return static_cast<double>(near) / static_cast<double>(graph.entries());
}

void expect_permutation(const std::vector<NodeId>& order, std::int64_t nodes) {
  std::vector<NodeId> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<NodeId> ids(static_cast<std::size_t>(nodes));
  std::iota(ids.begin(), ids.end(), 0);
  EXPECT_EQ(sorted, ids);
}

TEST(NodeOrder, HoldsEveryNodeOnce) {
  for (const std::int64_t nodes : {0, 1, 2, 33, 257}) {
    for (const bool directed : {false, true}) {
      const Graph graph = test::random_graph(nodes, 0.05, 4, directed);
      EXPECT_TRUE(order_nodes(graph, NodeOrder::id).empty());
      expect_permutation(order_nodes(graph, NodeOrder::random), nodes);
      expect_permutation(order_nodes(graph, NodeOrder::cluster), nodes);
    }
  }
}

TEST(NodeOrder, ClusterPutsNeighboursSideBySide) {
  constexpr int size = 200;
  const Graph graph = grouped_graph(64, size);
  ASSERT_GT(graph.nodes, kClusterNodes);
  const double random = near_share(graph, order_nodes(graph, NodeOrder::random), 2 * size);
  const double cluster = near_share(graph, order_nodes(graph, NodeOrder::cluster), 2 * size);
  EXPECT_LT(random, 0.1);
  EXPECT_GT(cluster, 0.7);
}

TEST(NodeOrder, AutomaticGoesBySizeAndDensity) {
  const Graph small = test::path_graph(kClusterNodes);
  const Graph large = test::path_graph(kClusterNodes + 1);
  EXPECT_EQ(resolve_order(small, NodeOrder::automatic), NodeOrder::id);
  EXPECT_EQ(resolve_order(large, NodeOrder::automatic), NodeOrder::cluster);
  EXPECT_EQ(resolve_order(small, NodeOrder::random), NodeOrder::random);
  EXPECT_EQ(order_nodes(large, NodeOrder::automatic), order_nodes(large, NodeOrder::cluster));
  std::vector<Edge> edges;
  for (NodeId v = 0; v < large.nodes; ++v) {
    for (NodeId step = 1; step <= 33; ++step) edges.emplace_back(v, (v + step) % large.nodes);
  }
  Graph dense = test::graph_from_edges(large.nodes, edges);
  EXPECT_EQ(resolve_order(dense, NodeOrder::automatic), NodeOrder::id);
  // Entries with weights are not gathered in blocks, so they need an order that caches suit.
  dense.edge_weights = std::vector<float>(static_cast<std::size_t>(dense.entries()), 0.5F);
  EXPECT_EQ(resolve_order(dense, NodeOrder::automatic), NodeOrder::cluster);
}

TEST(ClusterNodes, TwoTrianglesAreTwoClusters) {
  const Graph graph = test::graph_from_edges(7, {{0, 2}, {2, 4}, {0, 4}, {1, 3}, {3, 5}, {1, 5}});
  const std::vector<std::int32_t> cluster = cluster_nodes(graph, 7);
  EXPECT_EQ(cluster[0], cluster[2]);
  EXPECT_EQ(cluster[0], cluster[4]);
  EXPECT_EQ(cluster[1], cluster[3]);
  EXPECT_EQ(cluster[1], cluster[5]);
  EXPECT_EQ((std::set<std::int32_t>{cluster[0], cluster[1], cluster[6]}.size()), 3U);
}

TEST(ClusterNodes, NoClusterIsLargerThanAllowed) {
  for (const std::int64_t most : {1, 2, 13}) {
    for (const Graph& graph : {test::star_graph(100), test::random_graph(300, 0.1, 2)}) {
      std::map<std::int32_t, std::int64_t> size;
      for (const std::int32_t c : cluster_nodes(graph, most)) ++size[c];
      std::int64_t largest = 0;
      for (const auto& [cluster, nodes] : size) largest = std::max(largest, nodes);
      EXPECT_LE(largest, most);
      EXPECT_GE(largest, std::min<std::int64_t>(most, 2));
    }
  }
}

TEST(NodeIndex, NumbersNodesInTheOrderGiven) {
  const Graph graph = test::path_graph(5);
  const Partition partition{2, {0, 1, 0, 1, 0}};
  const std::vector<NodeId> order{4, 3, 2, 1, 0};
  const NodeIndex index(graph, partition, nullptr, order);
  EXPECT_EQ(std::vector<NodeId>(index.nodes(0).begin(), index.nodes(0).end()),
            (std::vector<NodeId>{4, 2, 0}));
  EXPECT_EQ(index.local(0), 2);

  const std::vector<NodeId> members{0, 1, 4};
  const NodeIndex induced(graph, partition, &members, order);
  EXPECT_EQ(std::vector<NodeId>(induced.nodes(0).begin(), induced.nodes(0).end()),
            (std::vector<NodeId>{4, 0}));
  EXPECT_FALSE(induced.contains(2));
}

TEST(NodeIndex, HaloRowsFollowTheOwnersOrder) {
  // Rank 0 owns node 0, which reads 1, 2 and 3 of rank 1.
  const Graph graph = test::star_graph(4);
  const Partition partition{2, {0, 1, 1, 1}};
  const std::vector<NodeId> order{2, 0, 3, 1};
  const NodeIndex index(graph, partition, nullptr, order);
  const Shard reader = build_shard(index, 0, nullptr);
  const Shard owner = build_shard(index, 1, nullptr);
  EXPECT_EQ(owner.global_ids, (std::vector<std::int64_t>{2, 3, 1}));
  EXPECT_EQ(owner.in.plan.peers.at(0).sent, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(reader.in.halo.columns, (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(NodeIndex, RefusesAnOrderThatDoesNotFit) {
  const Graph graph = test::path_graph(3);
  const Partition partition{1, {0, 0, 0}};
  for (const std::vector<NodeId>& order :
       {std::vector<NodeId>{0, 1}, {0, 1, 1}, {0, 1, 3}, {0, -1, 2}}) {
    test::expect_error(ErrorCode::usage, "order",
                       [&] { const NodeIndex index(graph, partition, nullptr, order); });
  }
}

}  // namespace
}  // namespace heliograph
