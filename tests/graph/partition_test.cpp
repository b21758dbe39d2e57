#include "heliograph/partition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <set>

#include "graph/partition/metis.hpp"
#include "heliograph/error.hpp"
#include "support/expect_error.hpp"
#include "support/graphs.hpp"

namespace heliograph {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;

PartitionOptions asked(int parts, Partitioner partitioner = Partitioner::metis,
                       std::uint64_t seed = 0) {
  PartitionOptions options;
  options.parts = parts;
  options.partitioner = partitioner;
  options.seed = seed;
  return options;
}

std::vector<std::int64_t> sizes(const Partition& partition) {
  std::vector<std::int64_t> count(static_cast<std::size_t>(partition.parts), 0);
  for (const auto owner : partition.owner) ++count.at(static_cast<std::size_t>(owner));
  return count;
}

void expect_sound(const Graph& graph, const Partition& partition, int parts) {
  EXPECT_EQ(partition.parts, parts);
  ASSERT_EQ(static_cast<std::int64_t>(partition.owner.size()), graph.nodes);
  EXPECT_THAT(partition.owner, Each(AllOf(Ge(0), Lt(parts))));
  EXPECT_THAT(sizes(partition), Each(Ge(1)));
}

TEST(MetisPartition, CutsTwoCliquesWhereTheyMeet) {
  std::vector<test::Edge> edges{{0, 9}};
  for (NodeId u = 0; u < 10; ++u) {
    for (NodeId v = 0; v < u; ++v) {
      if (u % 2 == v % 2) edges.emplace_back(u, v);
    }
  }
  const Graph graph = test::graph_from_edges(10, edges);
  for (const auto objective : {MetisObjective::edge_cut, MetisObjective::volume}) {
    PartitionOptions options = asked(2);
    options.objective = objective;
    const PartitionQuality quality = measure_partition(graph, make_partition(graph, options));
    EXPECT_EQ(quality.edge_cut, 1);
    EXPECT_EQ(quality.communication_volume, 2);
  }
}

TEST(MetisPartition, TinyGraphsOfEveryShapeAndEveryK) {
  for (const bool directed : {false, true}) {
    for (std::int64_t nodes = 1; nodes <= 17; ++nodes) {
      const std::vector<Graph> graphs{
          test::path_graph(nodes, directed), test::star_graph(nodes, directed),
          test::graph_from_edges(nodes, {}, directed),
          test::random_graph(nodes, 0.3, static_cast<std::uint64_t>(nodes), directed),
          test::random_graph(nodes, 1.0, 1, directed)};
      for (const Graph& graph : graphs) {
        for (int parts = 1; parts <= nodes; ++parts) {
          for (const auto objective : {MetisObjective::edge_cut, MetisObjective::volume}) {
            PartitionOptions options = asked(parts);
            options.objective = objective;
            const Partition partition = make_partition(graph, options);
            expect_sound(graph, partition, parts);
            EXPECT_EQ(partition.owner, make_partition(graph, options).owner);
          }
        }
      }
    }
  }
}

TEST(MetisPartition, PrintsNothing) {
  // One training node for many parts makes METIS complain on standard output.
  std::vector<Role> role(120, Role::test);
  role[5] = Role::train;
  const Split split{role};
  ::testing::internal::CaptureStdout();
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    PartitionOptions options = asked(2 + static_cast<int>(seed % 9), Partitioner::metis, seed);
    metis_owners(test::make_small_dataset(120, 1, 3, seed).graph, options, &split);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

TEST(MetisPartition, SaysWhatItRepairsAndWhatItCannotBalance) {
  std::vector<std::string> warnings;
  const LogCallback log = [&](LogLevel level, std::string_view words) {
    if (level == LogLevel::warning) warnings.emplace_back(words);
  };
  PartitionOptions options = asked(12);
  make_partition(test::star_graph(12), options, log);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("parts empty"), HasSubstr("fewer than 4 nodes")));

  warnings.clear();
  options.parts = 3;
  std::vector<Role> role(300, Role::test);
  std::fill_n(role.begin(), 29, Role::train);
  const Split split{role};
  options.balance_train = true;
  const Graph graph = test::path_graph(300);
  const Partition partition = make_partition(graph, options, log, &split);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("too few training nodes")));
  EXPECT_LT(measure_partition(graph, partition).node_balance, 1.05);
}

TEST(MetisPartition, BeatsRandomOnALargerGraphAndBalances) {
  const Dataset dataset = test::make_small_dataset(1500, 1, 4, 3);
  for (const int parts : {2, 4, 7}) {
    const Partition cut = make_partition(dataset.graph, asked(parts));
    expect_sound(dataset.graph, cut, parts);
    const auto quality = measure_partition(dataset.graph, cut);
    const auto random = measure_partition(
        dataset.graph, make_partition(dataset.graph, asked(parts, Partitioner::random)));
    EXPECT_LT(quality.edge_cut, random.edge_cut * 8 / 10);
    EXPECT_LT(quality.node_balance, 1.05);
  }
}

TEST(MetisPartition, BalancesTheTrainingNodesWhenAsked) {
  // Training nodes are the first third of a path, so a balance of nodes alone leaves two parts
  // almost without them.
  const Graph graph = test::path_graph(900);
  std::vector<Role> role(900, Role::test);
  std::fill_n(role.begin(), 300, Role::train);
  const Split split{role};
  const auto most_training = [&](const Partition& partition) {
    std::vector<int> training(3, 0);
    for (std::size_t v = 0; v < 300; ++v) {
      ++training[static_cast<std::size_t>(partition.owner[v])];
    }
    return *std::max_element(training.begin(), training.end());
  };
  PartitionOptions options = asked(3);
  EXPECT_GT(most_training(make_partition(graph, options)), 200);
  options.balance_train = true;
  const Partition balanced = make_partition(graph, options, {}, &split);
  expect_sound(graph, balanced, 3);
  EXPECT_LT(most_training(balanced), 130);

  const Split none{std::vector<Role>(900, Role::none)};
  expect_sound(graph, make_partition(graph, options, {}, &none), 3);
  const Split short_one{std::vector<Role>(5, Role::train)};
  test::expect_error(ErrorCode::mismatch, "split to balance",
                     [&] { make_partition(graph, options, {}, &short_one); });
  test::expect_error(ErrorCode::usage, "needs a split", [&] { make_partition(graph, options); });
}

TEST(MetisPartition, ReadsAGraphThatCannotBeWritten) {
  const Graph graph = test::random_graph(400, 0.02, 9);
  const std::size_t bytes = graph.neighbours.size() * sizeof(NodeId);
  void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  const std::shared_ptr<const void> storage(page, [bytes](void* p) { munmap(p, bytes); });
  std::memcpy(page, graph.neighbours.data(), bytes);
  ASSERT_EQ(mprotect(page, bytes, PROT_READ), 0);
  const Graph mapped{
      400, false, graph.offsets,
      Array<NodeId>({static_cast<const NodeId*>(page), graph.neighbours.size()}, storage)};
  for (const auto objective : {MetisObjective::edge_cut, MetisObjective::volume}) {
    PartitionOptions options = asked(5);
    options.objective = objective;
    EXPECT_EQ(make_partition(mapped, options).owner, make_partition(graph, options).owner);
  }
}

TEST(MetisPartition, RefusesWhatItsIndicesCannotHoldBeforeAllocating) {
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
  EXPECT_NO_THROW(check_metis_size(10, limit - 1, false));
  EXPECT_NO_THROW(check_metis_size(10, limit / 2, true));
  test::expect_error(ErrorCode::resource, "neighbour entries",
                     [] { check_metis_size(10, limit, false); });
  test::expect_error(ErrorCode::resource, "both ways",
                     [] { check_metis_size(10, limit / 2 + 1, true); });
  test::expect_error(ErrorCode::resource, "nodes", [] { check_metis_size(limit, 10, false); });
}

TEST(MetisPartition, RefusesWhatItWouldReadOutOfBounds) {
  using Offsets = std::vector<std::int64_t>;
  const auto refused = [](Offsets offsets, std::vector<NodeId> neighbours, const char* part) {
    const Graph graph{3, false, std::move(offsets), std::move(neighbours)};
    test::expect_error(ErrorCode::bad_input, part, [&] { make_partition(graph, asked(2)); });
  };
  for (const NodeId wrong : {-1, 3}) refused({0, 1, 2, 2}, {1, wrong}, "neighbours of row 1 holds");
  refused({0, 1000000, 2000000, 3000000}, {}, "ends at 3000000, but there are 0 entries");
  refused({0, 1}, {1}, "offsets");
}

volatile std::sig_atomic_t handled = 0;
void note_signal(int, siginfo_t* info, void*) { handled = info != nullptr ? 1 : 2; }

TEST(MetisPartition, LeavesTheCallersSignalHandlers) {
  struct sigaction mine {};
  struct sigaction before {};
  mine.sa_sigaction = note_signal;
  mine.sa_flags = SA_SIGINFO;
  sigemptyset(&mine.sa_mask);
  ASSERT_EQ(sigaction(SIGTERM, &mine, &before), 0);
  make_partition(test::path_graph(100), asked(3));
  handled = 0;
  std::raise(SIGTERM);
  EXPECT_EQ(handled, 1);
  sigaction(SIGTERM, &before, nullptr);
}

TEST(Partition, ContiguousPartsDifferByAtMostOneNode) {
  const Graph graph = test::path_graph(11);
  EXPECT_THAT(make_partition(graph, asked(3, Partitioner::contiguous)).owner,
              ElementsAre(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2));
  for (int parts = 1; parts <= 11; ++parts) {
    const Partition partition = make_partition(graph, asked(parts, Partitioner::contiguous));
    expect_sound(graph, partition, parts);
    EXPECT_TRUE(std::is_sorted(partition.owner.begin(), partition.owner.end()));
    const auto count = sizes(partition);
    EXPECT_LE(*std::max_element(count.begin(), count.end()) -
                  *std::min_element(count.begin(), count.end()),
              1);
  }
}

TEST(Partition, RandomFollowsItsSeedAndNeverLeavesAPartEmpty) {
  const Graph graph = test::path_graph(3000);
  const auto options = asked(4, Partitioner::random, 7);
  const Partition partition = make_partition(graph, options);
  EXPECT_EQ(partition.owner, make_partition(graph, options).owner);
  EXPECT_NE(partition.owner, make_partition(graph, asked(4, Partitioner::random, 8)).owner);
  // 3000 draws of 1/4: a deviation of 24 around 750.
  for (const auto size : sizes(partition)) EXPECT_NEAR(static_cast<double>(size), 750, 120);
  for (int parts = 1; parts <= 9; ++parts) {
    const Graph small = test::path_graph(9);
    expect_sound(small, make_partition(small, asked(parts, Partitioner::random)), parts);
  }
}

TEST(Partition, RefusesCountsOfPartsThatCannotBe) {
  const Graph graph = test::path_graph(3);
  for (const auto partitioner :
       {Partitioner::metis, Partitioner::contiguous, Partitioner::random, Partitioner::file}) {
    test::expect_error(ErrorCode::usage, "parts 0: at least 1",
                       [&] { make_partition(graph, asked(0, partitioner)); });
    test::expect_error(ErrorCode::usage, "only 3 nodes",
                       [&] { make_partition(graph, asked(4, partitioner)); });
  }
  const Graph huge{std::int64_t{1} << 31, false, {}, {}};
  test::expect_error(ErrorCode::resource, "32-bit", [&] { make_partition(huge, asked(2)); });
}

TEST(PartitionQuality, PathOfFourByHand) {
  const Graph graph = test::path_graph(4);
  const PartitionQuality quality = measure_partition(graph, Partition{2, {0, 1, 1, 1}});
  EXPECT_EQ(quality.edge_cut, 1);
  EXPECT_EQ(quality.communication_volume, 2);
  EXPECT_THAT(quality.inner_nodes, ElementsAre(1, 3));
  EXPECT_THAT(quality.halo_nodes, ElementsAre(1, 1));
  EXPECT_THAT(quality.inner_edges, ElementsAre(0, 4));
  EXPECT_THAT(quality.halo_edges, ElementsAre(1, 1));
  EXPECT_DOUBLE_EQ(quality.node_balance, 1.5);
  EXPECT_DOUBLE_EQ(quality.edge_balance, 5.0 / 3);
}

TEST(PartitionQuality, AgreesWithBruteForce) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const bool directed = seed % 2 == 1;
    const int parts = 1 + static_cast<int>(seed % 7);
    const Graph graph =
        test::random_graph(30, 0.02 * static_cast<double>(seed % 10), seed, directed);
    const Partition partition = test::scattered_partition(30, parts, seed);
    std::set<std::pair<NodeId, std::int32_t>> halo;
    std::vector<std::int64_t> inner(static_cast<std::size_t>(parts)), outer = inner, nodes = inner;
    for (const auto& [u, v] : test::edges_of(graph)) {
      const auto source = partition.owner[static_cast<std::size_t>(u)];
      const auto reader = partition.owner[static_cast<std::size_t>(v)];
      if (source != reader) halo.emplace(u, reader);
      ++(source == reader ? inner : outer)[static_cast<std::size_t>(reader)];
    }
    for (const auto& [u, reader] : halo) ++nodes[static_cast<std::size_t>(reader)];
    const PartitionQuality quality = measure_partition(graph, partition);
    const auto cut = std::accumulate(outer.begin(), outer.end(), std::int64_t{0});
    EXPECT_EQ(quality.edge_cut, directed ? cut : cut / 2);
    EXPECT_EQ(quality.communication_volume, static_cast<std::int64_t>(halo.size()));
    EXPECT_EQ(quality.halo_nodes, nodes);
    EXPECT_EQ(quality.inner_edges, inner);
    EXPECT_EQ(quality.halo_edges, outer);
    EXPECT_EQ(quality.inner_nodes, sizes(partition));
  }
}

TEST(PartitionQuality, RefusesAPartitionOfAnotherGraph) {
  const Graph graph = test::path_graph(4);
  test::expect_error(ErrorCode::mismatch, "4", [&] { measure_partition(graph, {2, {0, 1}}); });
  test::expect_error(ErrorCode::bad_input, "node 3", [&] {
    measure_partition(graph, {2, {0, 1, 1, 2}});
  });
}

}  // namespace
}  // namespace heliograph
