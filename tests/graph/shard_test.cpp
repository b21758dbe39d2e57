#include "graph/shard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <thread>

#include "heliograph/error.hpp"
#include "support/expect_error.hpp"
#include "support/graphs.hpp"

namespace heliograph {
namespace {

using test::Edge;
using ::testing::ElementsAre;

std::vector<Shard> build_all(const NodeIndex& index) {
  std::optional<Graph> transposed;
  if (index.graph().directed) transposed = transpose(index.graph());
  std::vector<Shard> shards;
  for (int rank = 0; rank < index.ranks(); ++rank) {
    shards.push_back(build_shard(index, rank, transposed ? &*transposed : nullptr));
  }
  return shards;
}

/// The global ids of a rank's halo rows, as its peers' plans say what they send.
std::vector<NodeId> halo_ids(const std::vector<Shard>& shards, std::size_t rank,
                             Direction direction) {
  const HaloPlan& plan = shards[rank].adjacency(direction).plan;
  std::vector<NodeId> ids;
  for (const auto& peer : plan.peers) {
    if (peer.halo_begin == peer.halo_end) continue;
    EXPECT_EQ(peer.halo_begin, static_cast<std::int32_t>(ids.size()));
    const Shard& sender = shards[static_cast<std::size_t>(peer.rank)];
    for (const auto& back : sender.adjacency(direction).plan.peers) {
      if (back.rank != static_cast<int>(rank)) continue;
      for (const std::int32_t row : back.sent) {
        ids.push_back(static_cast<NodeId>(sender.global_ids.at(static_cast<std::size_t>(row))));
      }
    }
    EXPECT_EQ(peer.halo_end, static_cast<std::int32_t>(ids.size()));
  }
  EXPECT_EQ(plan.halo_rows, static_cast<std::int32_t>(ids.size()));
  return ids;
}

void expect_ascending(const Csr& csr) {
  for (std::size_t row = 0; row + 1 < csr.offsets.size(); ++row) {
    for (auto i = csr.offsets[row] + 1; i < csr.offsets[row + 1]; ++i) {
      EXPECT_LT(csr.columns[static_cast<std::size_t>(i) - 1],
                csr.columns[static_cast<std::size_t>(i)]);
    }
  }
}

/// Every (column's node, row's node) pair that the shards hold.
std::vector<Edge> edges_in(const std::vector<Shard>& shards, Direction direction) {
  std::vector<Edge> edges;
  const auto add = [&](const Csr& csr, const Shard& shard, const auto& id_of) {
    ASSERT_EQ(csr.offsets.size(), static_cast<std::size_t>(shard.inner_rows) + 1);
    expect_ascending(csr);
    for (std::size_t row = 0; row < shard.global_ids.size(); ++row) {
      for (auto i = csr.offsets[row]; i < csr.offsets[row + 1]; ++i) {
        const auto column = static_cast<std::size_t>(csr.columns[static_cast<std::size_t>(i)]);
        edges.emplace_back(static_cast<NodeId>(id_of.at(column)),
                           static_cast<NodeId>(shard.global_ids[row]));
      }
    }
  };
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    const Adjacency& adjacency = shards[rank].adjacency(direction);
    add(adjacency.inner, shards[rank], shards[rank].global_ids);
    add(adjacency.halo, shards[rank], halo_ids(shards, rank, direction));
  }
  std::sort(edges.begin(), edges.end());
  return edges;
}

std::vector<Edge> sorted(std::vector<Edge> edges) {
  std::sort(edges.begin(), edges.end());
  return edges;
}

void expect_complete(const Graph& graph, const Partition& partition,
                     const std::vector<NodeId>* members) {
  const NodeIndex index(graph, partition, members);
  const std::vector<Shard> shards = build_all(index);
  std::vector<Edge> expected;
  for (const auto& edge : test::edges_of(graph)) {
    if (index.contains(edge.first) && index.contains(edge.second)) expected.push_back(edge);
  }
  EXPECT_EQ(edges_in(shards, Direction::forward), sorted(expected));
  std::vector<std::int64_t> degree(static_cast<std::size_t>(graph.nodes), 0);
  for (const auto& [u, v] : expected) ++degree[static_cast<std::size_t>(v)];
  std::vector<Edge> reversed;
  for (const auto& [u, v] : expected) reversed.emplace_back(v, u);
  EXPECT_EQ(edges_in(shards, Direction::backward), sorted(reversed));

  std::vector<std::int64_t> seen;
  for (const Shard& shard : shards) {
    EXPECT_EQ(shard.ranks, partition.parts);
    EXPECT_EQ(shard.out.has_value(), graph.directed);
    for (std::size_t i = 0; i < shard.global_ids.size(); ++i) {
      const auto v = static_cast<std::size_t>(shard.global_ids[i]);
      seen.push_back(shard.global_ids[i]);
      EXPECT_EQ(partition.owner[v], shard.rank);
      EXPECT_EQ(shard.in_degree[i], degree[v]);
    }
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      for (const auto& peer : shard.adjacency(direction).plan.peers) {
        EXPECT_NE(peer.rank, shard.rank);
        EXPECT_FALSE(peer.sent.empty() && peer.halo_begin == peer.halo_end);
        EXPECT_TRUE(std::is_sorted(peer.sent.begin(), peer.sent.end()));
      }
    }
  }
  std::sort(seen.begin(), seen.end());
  std::vector<std::int64_t> all(static_cast<std::size_t>(graph.nodes));
  std::iota(all.begin(), all.end(), 0);
  if (members != nullptr) all.assign(members->begin(), members->end());
  EXPECT_EQ(seen, all);
}

TEST(Shard, PathOfFourOverTwoRanksByHand) {
  // 0 - 1 - 2 - 3 with {0, 3} on rank 0 and {1, 2} on rank 1.
  const Graph graph = test::path_graph(4);
  const Partition partition{2, {0, 1, 1, 0}};
  const NodeIndex index(graph, partition);
  const std::vector<Shard> shards = build_all(index);

  EXPECT_THAT(shards[0].global_ids, ElementsAre(0, 3));
  EXPECT_THAT(shards[0].in_degree, ElementsAre(1, 1));
  EXPECT_THAT(shards[0].in.inner.offsets, ElementsAre(0, 0, 0));
  EXPECT_THAT(shards[0].in.halo.offsets, ElementsAre(0, 1, 2));
  EXPECT_THAT(shards[0].in.halo.columns, ElementsAre(0, 1));
  ASSERT_EQ(shards[0].in.plan.peers.size(), 1U);
  EXPECT_EQ(shards[0].in.plan.peers[0].rank, 1);
  EXPECT_THAT(shards[0].in.plan.peers[0].sent, ElementsAre(0, 1));
  EXPECT_EQ(shards[0].in.plan.send_rows(), 2);
  EXPECT_FALSE(shards[0].out);

  EXPECT_THAT(shards[1].in.inner.offsets, ElementsAre(0, 1, 2));
  EXPECT_THAT(shards[1].in.inner.columns, ElementsAre(1, 0));
  EXPECT_THAT(shards[1].in_degree, ElementsAre(2, 2));
}

TEST(Shard, DirectedStarHasAPlanForEachDirection) {
  // 0 -> 1, 2, 3. Forward, the centre's row is sent; backward, those of the leaves.
  const Graph graph = test::star_graph(4, true);
  const Partition partition{2, {0, 0, 1, 1}};
  const NodeIndex index(graph, partition);
  const std::vector<Shard> shards = build_all(index);

  EXPECT_EQ(shards[0].in.plan.halo_rows, 0);
  EXPECT_THAT(shards[0].in.plan.peers.at(0).sent, ElementsAre(0));
  EXPECT_EQ(shards[1].in.plan.halo_rows, 1);
  EXPECT_THAT(shards[1].in.halo.columns, ElementsAre(0, 0));
  ASSERT_TRUE(shards[0].out && shards[1].out);
  EXPECT_EQ(shards[0].out->plan.halo_rows, 2);
  EXPECT_THAT(shards[0].out->halo.columns, ElementsAre(0, 1));
  EXPECT_THAT(shards[0].out->inner.columns, ElementsAre(1));
  EXPECT_THAT(shards[1].out->plan.peers.at(0).sent, ElementsAre(0, 1));
  EXPECT_EQ(shards[1].out->plan.halo_rows, 0);
  EXPECT_THAT(shards[1].in_degree, ElementsAre(1, 1));
}

struct Sizes {
  int parts;
  bool directed;
};
class ShardProperty : public ::testing::TestWithParam<Sizes> {};

TEST_P(ShardProperty, EveryEdgeIsHeldOnceAndPlansMeet) {
  const auto [parts, directed] = GetParam();
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const std::int64_t nodes = 1 + static_cast<std::int64_t>(seed * 7 % 41);
    const double density = seed % 4 == 0 ? 0.0 : 0.04 * static_cast<double>(seed);
    const Graph graph = test::random_graph(nodes, density, seed, directed);
    const Partition partition = test::scattered_partition(nodes, parts, seed + 100);
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_complete(graph, partition, nullptr);

    std::vector<NodeId> members;
    for (NodeId v = 0; v < nodes; ++v) {
      if ((static_cast<std::uint64_t>(v) * 2654435761U + seed) % 7 < 4) members.push_back(v);
    }
    expect_complete(graph, partition, &members);
  }
}

TEST_P(ShardProperty, HalosSumToTheCommunicationVolume) {
  const auto [parts, directed] = GetParam();
  const Graph graph = test::random_graph(60, 0.1, 5, directed);
  const Partition partition = test::scattered_partition(60, parts, 6);
  const NodeIndex index(graph, partition);
  std::int64_t halo = 0, sent = 0;
  for (const Shard& shard : build_all(index)) {
    halo += shard.in.plan.halo_rows;
    sent += shard.in.plan.send_rows();
  }
  std::vector<std::pair<NodeId, int>> needed;  // (node, rank that reads it)
  for (const auto& [u, v] : test::edges_of(graph)) {
    if (index.owner(u) != index.owner(v)) needed.emplace_back(u, index.owner(v));
  }
  std::sort(needed.begin(), needed.end());
  needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
  EXPECT_EQ(halo, static_cast<std::int64_t>(needed.size()));
  EXPECT_EQ(sent, halo);
}

INSTANTIATE_TEST_SUITE_P(Parts, ShardProperty,
                         ::testing::Values(Sizes{1, false}, Sizes{2, false}, Sizes{4, false},
                                           Sizes{7, false}, Sizes{1, true}, Sizes{2, true},
                                           Sizes{4, true}, Sizes{7, true}),
                         [](const auto& tested) {
                           return std::to_string(tested.param.parts) +
                                  (tested.param.directed ? "PartsDirected" : "Parts");
                         });

TEST(Shard, OneNodeAPart) {
  const Graph graph = test::path_graph(5);
  expect_complete(graph, test::round_robin_partition(5, 5), nullptr);
}

TEST(Shard, EmptyPartsAndNoHalo) {
  const Graph graph = test::path_graph(3);
  const Partition partition{4, {2, 2, 2}};
  const NodeIndex index(graph, partition);
  const Shard empty = build_shard(index, 0, nullptr);
  EXPECT_EQ(empty.inner_rows, 0);
  EXPECT_THAT(empty.in.inner.offsets, ElementsAre(0));
  EXPECT_TRUE(empty.in.plan.peers.empty());
  const Shard full = build_shard(index, 2, nullptr);
  EXPECT_EQ(full.inner_rows, 3);
  EXPECT_EQ(full.in.plan.halo_rows, 0);
  EXPECT_THAT(full.in.halo.offsets, ElementsAre(0, 0, 0, 0));
}

TEST(Shard, InducedSubgraphKeepsGlobalIdsAndHasDegreesOfItsOwn) {
  const Graph graph = test::path_graph(5);
  const Partition partition = test::round_robin_partition(5, 2);
  const std::vector<NodeId> members{1, 2, 4};
  const NodeIndex index(graph, partition, &members);
  EXPECT_FALSE(index.contains(3));
  EXPECT_EQ(index.local(3), -1);
  const Shard even = build_shard(index, 0, nullptr);
  EXPECT_THAT(even.global_ids, ElementsAre(2, 4));
  EXPECT_THAT(even.in_degree, ElementsAre(1, 0));
}

TEST(Shard, RanksBuildAtOnceFromOneIndex) {
  const Graph graph = test::random_graph(200, 0.05, 1, true);
  const Graph transposed = transpose(graph);
  const Partition partition = test::scattered_partition(200, 4, 2);
  const NodeIndex index(graph, partition);
  std::vector<Shard> at_once(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      at_once[static_cast<std::size_t>(rank)] = build_shard(index, rank, &transposed);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(edges_in(at_once, Direction::forward), sorted(test::edges_of(graph)));
}

/// The weight of each entry of the shards' adjacencies, by its edge in the whole graph.
std::map<Edge, float> weights_in(const std::vector<Shard>& shards, Direction direction) {
  std::map<Edge, float> weights;
  for (const Shard& shard : shards) {
    const Adjacency& a = shard.adjacency(direction);
    std::vector<std::int64_t> halo_ids(static_cast<std::size_t>(a.plan.halo_rows));
    for (const auto& peer : a.plan.peers) {
      const Shard& owner = shards[static_cast<std::size_t>(peer.rank)];
      for (const auto& theirs : owner.adjacency(direction).plan.peers) {
        if (theirs.rank != shard.rank) continue;
        for (std::size_t i = 0; i < theirs.sent.size(); ++i) {
          halo_ids[static_cast<std::size_t>(peer.halo_begin) + i] =
              owner.global_ids[static_cast<std::size_t>(theirs.sent[i])];
        }
      }
    }
    const auto add = [&](const Csr& block, const std::vector<std::int64_t>& ids) {
      EXPECT_EQ(block.values.size(), block.columns.size());
      for (std::size_t r = 0; r + 1 < block.offsets.size(); ++r) {
        for (auto e = block.offsets[r]; e < block.offsets[r + 1]; ++e) {
          const auto at = static_cast<std::size_t>(e);
          weights[{static_cast<NodeId>(ids[static_cast<std::size_t>(block.columns[at])]),
                   static_cast<NodeId>(shard.global_ids[r])}] = block.values[at];
        }
      }
    };
    add(a.inner, shard.global_ids);
    add(a.halo, halo_ids);
  }
  return weights;
}

TEST(Shard, EntriesKeepTheWeightsOfTheirEdges) {
  for (const bool directed : {false, true}) {
    Dataset data;
    data.graph = test::random_graph(60, 0.1, 3, directed);
    data = test::with_weights(std::move(data));
    const Graph transposed = transpose(data.graph);
    const Partition partition = test::scattered_partition(60, 4, 2);
    // The numbers that ranks give to nodes are in another order than those of the user.
    std::vector<NodeId> order(60), members;
    for (NodeId v = 0; v < 60; ++v) {
      order[static_cast<std::size_t>(v)] = (v * 37 + 11) % 60;
      if (v % 3 != 0) members.push_back(v);
    }
    for (const bool induced : {false, true}) {
      const NodeIndex index(data.graph, partition, induced ? &members : nullptr, order);
      std::vector<Shard> shards;
      for (int r = 0; r < 4; ++r) {
        shards.push_back(build_shard(index, r, directed ? &transposed : nullptr));
      }
      std::map<Edge, float> expected, reversed;
      for (const auto& [u, v] : test::edges_of(data.graph)) {
        if (induced && (u % 3 == 0 || v % 3 == 0)) continue;
        expected[{u, v}] = reversed[{v, u}] = test::weight_of(u, v, directed);
      }
      EXPECT_EQ(weights_in(shards, Direction::forward), expected);
      EXPECT_EQ(weights_in(shards, Direction::backward), reversed);
    }
  }
}

TEST(Transpose, TurnsEveryEdgeAround) {
  const Graph graph = test::random_graph(40, 0.1, 3, true);
  const Graph turned = transpose(graph);
  std::vector<Edge> expected;
  for (const auto& [u, v] : test::edges_of(graph)) expected.emplace_back(v, u);
  EXPECT_EQ(sorted(test::edges_of(turned)), sorted(expected));
  EXPECT_EQ(test::edges_of(transpose(turned)), test::edges_of(graph));
}

TEST(Transpose, OfNoNodes) {
  const Graph turned = transpose(Graph{0, true, std::vector<std::int64_t>{0}, {}});
  EXPECT_EQ(turned.entries(), 0);
}

TEST(NodeIndex, RefusesWhatDoesNotFit) {
  const Graph graph = test::path_graph(3);
  const Partition short_one{2, {0, 1}};
  test::expect_error(ErrorCode::mismatch, "", [&] { NodeIndex index(graph, short_one); });
  const Partition out_of_range{2, {0, 2, 1}};
  test::expect_error(ErrorCode::bad_input, "", [&] { NodeIndex index(graph, out_of_range); });
  const Partition fine{2, {0, 1, 1}};
  const std::vector<NodeId> unordered{2, 1};
  test::expect_error(ErrorCode::usage, "", [&] { NodeIndex index(graph, fine, &unordered); });
  const Graph huge{std::int64_t{1} << 31, false, {}, {}};
  test::expect_error(ErrorCode::resource, "", [&] { NodeIndex index(huge, fine); });
  test::expect_error(ErrorCode::resource, "", [&] { transpose(huge); });
}

TEST(BuildShard, RefusesAMissingTransposeAndAnUnknownRank) {
  const Graph graph = test::path_graph(3, true);
  const Partition partition{2, {0, 1, 1}};
  const NodeIndex index(graph, partition);
  test::expect_error(ErrorCode::usage, "", [&] { build_shard(index, 0, nullptr); });
  test::expect_error(ErrorCode::usage, "", [&] { build_shard(index, 2, nullptr); });
}

TEST(SmallDataset, IsWhatItsCommentSays) {
  for (const bool multilabel : {false, true}) {
    for (const bool sparse : {false, true}) {
      const Dataset dataset = test::make_small_dataset(60, 5, 3, 4, multilabel, sparse);
      ASSERT_EQ(dataset.graph.nodes, 60);
      EXPECT_EQ(dataset.graph.degree(59), 0);
      EXPECT_GT(dataset.graph.entries(), 120);
      EXPECT_FALSE(dataset.labels.has_label(16));
      EXPECT_TRUE(dataset.labels.has_label(0));
      ASSERT_EQ(dataset.splits.size(), 1U);
      EXPECT_EQ(dataset.splits[0].role[16], Role::none);
      EXPECT_EQ(dataset.splits[0].role[3], Role::validation);
      EXPECT_EQ(sparse ? dataset.features.offsets.size() : dataset.features.dense.size(),
                sparse ? 61U : 300U);
    }
  }
}

}  // namespace
}  // namespace heliograph
