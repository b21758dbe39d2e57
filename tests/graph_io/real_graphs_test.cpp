#include <algorithm>
#include <numeric>

#include "graph_io/reader_checks.hpp"

// The expected counts were computed from the same files by NumPy and SciPy.

namespace heliograph {
namespace {

using ::testing::ElementsAre;

class RealGraphs : public ::testing::Test {
 protected:
  const std::filesystem::path data_ =
      std::filesystem::path(HELIOGRAPH_SOURCE_DIR) / ".." / "shared" / "data";
  bool has(const char* name) const { return std::filesystem::exists(data_ / name); }
};

std::vector<std::int64_t> class_sizes(const Labels& labels) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(labels.classes), 0);
  for (const std::int32_t c : labels.class_of) ++sizes.at(static_cast<std::size_t>(c));
  return sizes;
}

std::int64_t count_role(const Split& split, Role role) {
  return std::count(split.role.begin(), split.role.end(), role);
}

TEST_F(RealGraphs, Cora) {
  if (!has("cora.npz")) GTEST_SKIP() << "cora.npz is not here";
  ImportCounts counts;
  const Dataset dataset = load_dataset(data_ / "cora.npz", {}, &counts);
  EXPECT_EQ(counts.nodes, 2708);
  EXPECT_EQ(counts.edges_listed, 5429);
  EXPECT_EQ(counts.self_loops, 0);
  EXPECT_EQ(counts.duplicates, 151);
  EXPECT_EQ(counts.entries, 10556);
  EXPECT_EQ(counts.isolated, 0);
  EXPECT_TRUE(dataset.graph.edge_weights.empty());  // adj_data holds ones
  EXPECT_EQ(dataset.features.cols, 1433);
  EXPECT_EQ(dataset.features.values.size(), 49216u);
  EXPECT_THAT(class_sizes(dataset.labels), ElementsAre(298, 418, 818, 426, 217, 180, 351));
  EXPECT_EQ(dataset.class_names.size(), 7u);
  ImportOptions directed;
  directed.keep_direction = true;
  EXPECT_EQ(load_dataset(data_ / "cora.npz", directed).graph.entries(), 5429);
}

TEST_F(RealGraphs, Tolokers) {
  if (!has("tolokers.npz")) GTEST_SKIP() << "tolokers.npz is not here";
  ImportCounts counts;
  const Dataset dataset = load_dataset(data_ / "tolokers.npz", {}, &counts);
  EXPECT_EQ(counts.nodes, 11758);
  EXPECT_EQ(counts.edges_listed, 519000);
  EXPECT_EQ(counts.duplicates, 0);
  EXPECT_EQ(counts.entries, 1038000);
  EXPECT_EQ(counts.isolated, 0);
  EXPECT_THAT(class_sizes(dataset.labels), ElementsAre(9192, 2566));
  ASSERT_EQ(dataset.splits.size(), 10u);
  for (const Split& split : dataset.splits) {
    EXPECT_EQ(count_role(split, Role::train), 5879);
    EXPECT_EQ(count_role(split, Role::validation), 2939);
    EXPECT_EQ(count_role(split, Role::test), 2940);
  }
  const Array<float>& values = dataset.features.dense;
  // Only the last digits of a sum in double depend on its order.
  EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0), 44970.000052578136, 1e-6);
}

TEST_F(RealGraphs, Facebook) {
  if (!has("facebook_pagepage")) GTEST_SKIP() << "facebook_pagepage is not here";
  ImportCounts counts;
  const Dataset dataset = load_dataset(data_ / "facebook_pagepage", {}, &counts);
  EXPECT_EQ(counts.nodes, 22470);
  EXPECT_EQ(counts.edges_listed, 171002);
  EXPECT_EQ(counts.self_loops, 179);
  EXPECT_EQ(counts.duplicates, 0);
  EXPECT_EQ(counts.entries, 341646);
  EXPECT_EQ(counts.isolated, 0);
  EXPECT_EQ(dataset.features.cols, 4714);
  EXPECT_EQ(dataset.features.values.size(), 314583u);
  EXPECT_THAT(dataset.class_names, ElementsAre("company", "government", "politician", "tvshow"));
  EXPECT_THAT(class_sizes(dataset.labels), ElementsAre(6495, 6880, 5768, 3327));
}

}  // namespace
}  // namespace heliograph
