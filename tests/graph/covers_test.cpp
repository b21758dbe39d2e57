#include "graph/covers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "support/graphs.hpp"

namespace heliograph {
namespace {

using ::testing::ElementsAre;

std::int64_t count(const std::vector<std::uint8_t>& marks) {
  return std::accumulate(marks.begin(), marks.end(), std::int64_t{0});
}

/// The size of the smallest covers of at most 8 sources, by trying all subsets of them, and the
/// most sources that one of them has.
std::pair<std::int64_t, std::int64_t> smallest_size(const Csr& edges, std::int64_t targets) {
  const auto sources = static_cast<unsigned>(edges.offsets.size() - 1);
  std::pair<std::int64_t, std::int64_t> best{sources + 1, 0};
  for (unsigned subset = 0; subset < (1U << sources); ++subset) {
    std::vector<std::uint8_t> needed(static_cast<std::size_t>(targets), 0);
    for (unsigned s = 0; s < sources; ++s) {
      if ((subset >> s & 1U) != 0) continue;
      for (auto e = edges.offsets[s]; e < edges.offsets[s + 1]; ++e) {
        needed[static_cast<std::size_t>(edges.columns[static_cast<std::size_t>(e)])] = 1;
      }
    }
    const std::int64_t taken = std::popcount(subset), size = taken + count(needed);
    if (std::pair(size, -taken) < std::pair(best.first, -best.second)) best = {size, taken};
  }
  return best;
}

TEST(Covers, AreTheSmallestWithMostSources) {
  std::mt19937 draw(5);
  for (int trial = 0; trial < 400; ++trial) {
    const auto sources = 1 + draw() % 8, targets = 1 + draw() % 8, share = 1 + draw() % 5;
    Csr edges{{0}, {}};
    for (unsigned s = 0; s < sources; ++s) {
      for (unsigned t = 0; t < targets; ++t) {
        if (draw() % 6 < share) edges.columns.push_back(static_cast<std::int32_t>(t));
      }
      edges.offsets.push_back(static_cast<std::int64_t>(edges.columns.size()));
    }
    const Cover cover = smallest_cover(edges, targets);
    ASSERT_EQ(cover.sources.size(), sources);
    ASSERT_EQ(cover.targets.size(), targets);
    for (unsigned s = 0; s < sources; ++s) {
      for (auto e = edges.offsets[s]; e < edges.offsets[s + 1]; ++e) {
        const auto t = static_cast<std::size_t>(edges.columns[static_cast<std::size_t>(e)]);
        EXPECT_TRUE(cover.sources[s] != 0 || cover.targets[t] != 0);
      }
    }
    const auto [size, most_sources] = smallest_size(edges, targets);
    EXPECT_EQ(count(cover.sources) + count(cover.targets), size);
    EXPECT_EQ(count(cover.sources), most_sources);
  }
}

struct Covered {
  CoverCounts counts;
  std::vector<Shard> shards;
};

Covered covered_shards(const Graph& graph, const Partition& partition) {
  const NodeIndex index(graph, partition);
  std::optional<Graph> transposed;
  if (graph.directed) transposed = transpose(graph);
  const Graph* readers = transposed ? &*transposed : nullptr;
  const Covers covers(index, readers, 2);
  Covered result{covers.counts(), {}};
  std::vector<Shard> whole;
  for (int rank = 0; rank < index.ranks(); ++rank) {
    whole.push_back(build_shard(index, rank, readers));
    covers.mark(whole.back());
  }
  for (const Shard& shard : whole) {
    // The numbers of halo nodes, in the order in which their owners send them.
    const auto ids_of = [&](Direction direction) {
      std::vector<std::int64_t> ids;
      for (const HaloPlan::Peer& peer : shard.adjacency(direction).plan.peers) {
        const Shard& owner = whole[static_cast<std::size_t>(peer.rank)];
        for (const HaloPlan::Peer& back : owner.adjacency(direction).plan.peers) {
          if (back.rank != shard.rank) continue;
          for (const std::int32_t row : back.sent) {
            ids.push_back(owner.global_ids[static_cast<std::size_t>(row)]);
          }
        }
      }
      return ids;
    };
    result.shards.push_back(
        cover_halos(shard, ids_of(Direction::forward), ids_of(Direction::backward)));
  }
  return result;
}

/// How often and with what weight each edge (source, target) is summed over all ranks.
using Summed = std::map<std::pair<std::int64_t, std::int64_t>, std::vector<float>>;

template <class Visit>
void for_each_entry(const Csr& block, Visit visit) {
  for (std::size_t r = 0; r + 1 < block.offsets.size(); ++r) {
    for (auto e = block.offsets[r]; e < block.offsets[r + 1]; ++e) {
      const auto i = static_cast<std::size_t>(e);
      visit(r, static_cast<std::size_t>(block.columns[i]),
            block.values.empty() ? 1.0F : block.values[i]);
    }
  }
}

/// The rank that sends halo row `row` of `plan`, and which of its rows it sends.
std::pair<std::size_t, std::size_t> sender(const std::vector<Shard>& shards, int receiver,
                                           Direction direction, bool sums, std::size_t row) {
  for (const HaloPlan::Peer& peer :
       shards[static_cast<std::size_t>(receiver)].plan(direction, sums).peers) {
    if (std::cmp_less(row, peer.halo_begin) || std::cmp_greater_equal(row, peer.halo_end)) continue;
    const auto from = static_cast<std::size_t>(peer.rank);
    for (const HaloPlan::Peer& back : shards[from].plan(direction, sums).peers) {
      if (back.rank != receiver) continue;
      return {from, static_cast<std::size_t>(
                        back.sent.at(row - static_cast<std::size_t>(peer.halo_begin)))};
    }
  }
  ADD_FAILURE() << "nobody sends row " << row;
  return {};
}

Summed summed_edges(const std::vector<Shard>& shards, Direction direction) {
  Summed summed;
  for (const Shard& shard : shards) {
    const Adjacency& a = shard.adjacency(direction);
    for_each_entry(a.inner, [&](std::size_t r, std::size_t c, float value) {
      summed[{shard.global_ids[c], shard.global_ids[r]}].push_back(value);
    });
    for_each_entry(a.halo, [&](std::size_t r, std::size_t c, float value) {
      const auto [from, row] = sender(shards, shard.rank, direction, false, c);
      summed[{shards[from].global_ids[row], shard.global_ids[r]}].push_back(value);
    });
    for_each_entry(a.sums->received, [&](std::size_t r, std::size_t c, float one) {
      EXPECT_EQ(one, 1.0F);
      const auto [from, sum] = sender(shards, shard.rank, direction, true, c);
      const PartialSums& sums = *shards[from].adjacency(direction).sums;
      EXPECT_EQ(sums.ids[sum], PartialSums::id(static_cast<int>(from), shard.global_ids[r]));
      EXPECT_EQ(PartialSums::node_of(sums.ids[sum]), shard.global_ids[r]);
      EXPECT_LT(sums.made.offsets[sum], sums.made.offsets[sum + 1]);
      for_each_entry(sums.made, [&](std::size_t made, std::size_t source, float value) {
        if (made != sum) return;
        summed[{shards[from].global_ids[source], shard.global_ids[r]}].push_back(value);
      });
    });
  }
  return summed;
}

Graph with_entry_weights(Graph graph) {
  std::vector<float> weights;
  for (const auto& [u, v] : test::edges_of(graph)) {
    weights.push_back(test::weight_of(u, v, graph.directed));
  }
  graph.edge_weights = std::move(weights);
  return graph;
}

TEST(Covers, EveryEdgeIsSummedOnceInBothDirections) {
  for (const bool directed : {false, true}) {
    for (const bool weighted : {false, true}) {
      for (const int parts : {1, 2, 3, 7, 40}) {
        for (const std::uint64_t seed : {1, 2, 3}) {
          SCOPED_TRACE(::testing::Message() << directed << weighted << parts << ' ' << seed);
          // Few enough edges that some nodes are isolated; some of 40 parts are empty.
          Graph graph = test::random_graph(40, seed == 1 ? 0.02 : 0.15, seed, directed);
          if (weighted) graph = with_entry_weights(std::move(graph));
          const Covered covered = covered_shards(graph, test::scattered_partition(40, parts, seed));
          const auto edges = test::edges_of(graph);
          const Summed forward = summed_edges(covered.shards, Direction::forward);
          const Summed backward = summed_edges(covered.shards, Direction::backward);
          ASSERT_EQ(forward.size(), edges.size());
          ASSERT_EQ(backward.size(), edges.size());
          for (const auto& [u, v] : edges) {
            const float weight = weighted ? test::weight_of(u, v, directed) : 1.0F;
            EXPECT_THAT(forward.at({u, v}), ElementsAre(weight));
            EXPECT_THAT(backward.at({v, u}), ElementsAre(weight));
          }
          std::int64_t rows = 0, sums = 0, replaced = 0, summed = 0;
          for (const Shard& shard : covered.shards) {
            rows += shard.in.plan.send_rows();
            sums += shard.in.sums->plan.send_rows();
            summed += shard.in.sums->made.entries();
            for (const HaloPlan::Peer& peer : shard.in.plan.peers) replaced += peer.replaced;
            EXPECT_EQ(shard.in.sums->plan.send_rows(), shard.in.sums->plan.inner_rows);
          }
          EXPECT_EQ(covered.counts.rows, rows);
          EXPECT_EQ(covered.counts.sums, sums);
          EXPECT_EQ(covered.counts.summed, summed);
          EXPECT_EQ(covered.counts.boundary_rows, rows + replaced);
          EXPECT_LE(rows + sums, rows + replaced);
        }
      }
    }
  }
}

TEST(Covers, OfAStarSendTheHubAndOneSum) {
  // Rank 0 has the hub 0 and rank 1 its five leaves.
  Partition partition{2, {0, 1, 1, 1, 1, 1}};
  const Covered covered = covered_shards(test::star_graph(6), partition);
  EXPECT_EQ(covered.counts.boundary_rows, 6);
  EXPECT_EQ(covered.counts.rows, 1);
  EXPECT_EQ(covered.counts.sums, 1);
  EXPECT_EQ(covered.counts.summed, 5);
  EXPECT_THAT(covered.shards[0].in.plan.peers[0].sent, ElementsAre(0));
  EXPECT_THAT(covered.shards[1].in.sums->made.columns, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(covered.shards[1].in.sums->ids, ElementsAre((std::int64_t{2} << 32) + 0));
  EXPECT_THAT(covered.shards[0].in.sums->received.offsets, ElementsAre(0, 1));
}

}  // namespace
}  // namespace heliograph
