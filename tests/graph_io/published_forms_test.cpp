#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "graph/io/published.hpp"
#include "graph/validate.hpp"
#include "graph_io/reader_checks.hpp"
#include "support/expect_error.hpp"

// Graphs in the forms of GraphSAINT and of DGL's Reddit, written by SciPy and NumPy.

namespace heliograph {
namespace {

namespace fs = std::filesystem;

class PublishedForms : public PythonTest {
 protected:
  void refused(const std::string& file, const std::string& text, const char* part) {
    const fs::path path = folder_ / file;
    const std::string before = read_text(path);
    write_text(path, text);
    SCOPED_TRACE(text);
    test::expect_error(ErrorCode::bad_input, {file, part}, [&] { load_dataset(folder_); });
    write_text(path, before);
  }
};

TEST_F(PublishedForms, GraphSaintIsReadWithoutWeights) {
  WRITE_FIXTURE_OR_SKIP("graphsaint");
  EXPECT_EQ(detect_format(folder_), InputFormat::graphsaint);
  ImportCounts counts;
  const Dataset dataset = load_dataset(folder_, {}, &counts);
  expect_graph(dataset.graph);
  EXPECT_TRUE(dataset.graph.edge_weights.empty());
  EXPECT_EQ(counts.edges_listed, 5);  // SciPy joins 0-1, which is listed twice.
  expect_features(dataset.features, false);
  expect_labels(dataset.labels);
  ASSERT_EQ(dataset.splits.size(), 1U);
  expect_first_split(dataset.splits[0]);

  const Labels flags = load_dataset(folder_ / "flags").labels;
  EXPECT_EQ(flags.task, Task::multilabel);
  EXPECT_EQ(flags.classes, 2);
  EXPECT_THAT(list(flags.labelled), ::testing::ElementsAre(1, 1, 1, 0, 1, 1));
  EXPECT_THAT(list(flags.indicators), ::testing::ElementsAre(1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0));
}

// As `eval` reads data without labels, whose nodes can have no role.
TEST_F(PublishedForms, RolesMayNameNodesWithoutLabels) {
  WRITE_FIXTURE_OR_SKIP("graphsaint");
  test::write_text(folder_ / "class_map.json",
                   R"({"0": -1, "1": -1, "2": -1, "3": -1, "4": -1, "5": -1})");
  ImportOptions options;
  options.requires_labels = false;
  const Dataset dataset = load_dataset(folder_, options);
  EXPECT_TRUE(dataset.splits.empty());
  EXPECT_FALSE(any_labelled(dataset.labels));
  test::expect_error(ErrorCode::bad_input, "no node of the data set has a label",
                     [&] { load_dataset(folder_); });
}

TEST_F(PublishedForms, GraphSaintIsRefusedByName) {
  WRITE_FIXTURE_OR_SKIP("graphsaint");
  const std::string file = "class_map.json";
  refused(file, "{\"0\": 0", "is damaged JSON");
  refused(file, "{\"0\": 0, \"1\": 1}", "has classes for 2 of 6 nodes");
  refused(file, "{\"0\": 0, \"0\": 1}", "gives node 0 twice");
  refused(file, "{\"6\": 0}", "'6' is not a node in [0, 6)");
  refused(file, "{\"0\": 0.5}", "the class 0.5, which is not a whole number");
  refused(file, "{\"0\": [0, 1], \"1\": [1], \"2\": [0, 1, 1, 1]}",
          "node 1 has 1 flags, where others have 2");
  refused(file, "{\"0\": [0, 2]}", "the flag 2, which is not 0 or 1");
  refused(file, "{\"0\": [0, 1, 0, 1]}", "too many for 6 nodes");
  for (const char* text : {"[]", "3", "null"}) {
    refused(file, text, "is not an object from nodes to classes or to lists of flags");
  }
  refused(file, R"({"0": {}})", "node 0 has an object instead of a class or a list of flags");
  refused(file, R"({"0": 1, "4": null})", "node 4 has null instead of a class, as others have; -1");
  refused(file, R"({"0": 1, "2": "a"})", "node 2 has the text 'a' instead of a class, as others");
  refused(file, R"({"0": [[0]]})", "node 0 has a list instead of a flag");
  refused(file, R"({"0": [0, null]})", "node 0 has null instead of a flag");
  refused(file, R"({"0": 1, "1": [0, 1]})", "node 1 has a list instead of a class, as others have");
  refused(file, R"({"0":[0],"1":1,"2":[0]})", "node 1 has 1 instead of a list of flags, as others");
  refused(file, R"({"0": 1, "3": NaN, "2": 1})",
          "is damaged JSON at node 3: NaN is no JSON; -1 marks a node without a label");
  refused("role.json", "{\"tr\": [0], \"va\": [1]}", "has no list of nodes \"te\"");
  refused("role.json", "{\"tr\": [0], \"va\": [9], \"te\": [2]}", "va: entry 0 is node 9");
  refused("role.json", "[", "is damaged JSON");
  refused("role.json", R"({"tr": [0, "1"], "va": [2], "te": [3]})",
          "tr: entry 1 is \"1\", which is not the number of a node");
  refused("role.json", R"({"tr": [0], "va": [null], "te": [3]})", "va: entry 0 is null, which");

  // If graph and features differ, the class map tells which of them is wrong.
  ASSERT_TRUE(write_fixture("graphsaint_sizes"));
  for (const auto& [name, part] :
       {std::pair("transposed", "feats.npy: has 3 rows, but adj_full.npz has 6: 3 too few; is it"),
        {"five", "adj_full.npz: has 5 rows, but feats.npy has 6: 1 too few"},
        {"wide", "adj_full.npz: member shape: is 6 x 7, which is not square"}}) {
    SCOPED_TRACE(name);
    test::expect_error(ErrorCode::bad_input, part, [&] { load_dataset(folder_ / name); });
  }
}

TEST_F(PublishedForms, DglRedditIsReadOrRefusedByName) {
  WRITE_FIXTURE_OR_SKIP("dgl_reddit");
  EXPECT_EQ(detect_format(folder_), InputFormat::dgl_reddit);
  ImportCounts counts;
  const Dataset dataset = load_dataset(folder_, {}, &counts);
  expect_graph(dataset.graph);
  EXPECT_EQ(counts.edges_listed, 6);
  expect_features(dataset.features, false);
  expect_labels(dataset.labels);
  ASSERT_EQ(dataset.splits.size(), 1U);
  expect_first_split(dataset.splits[0]);  // The type of node 5, which has no label, does not count.
  test::expect_error(ErrorCode::bad_input, "give the directory",
                     [&] { load_dataset(folder_ / "reddit_graph.npz"); });
  ASSERT_TRUE(write_fixture("bad_coo"));
  for (const auto& [name, part] :
       {std::pair("wide", "reddit_graph.npz: has 2147483647 rows, but"),
        {"far",
         "members row and col: entry [1, 0] is node 6, which is not in [0, 5]; "
         "all would fit if 1 were subtracted: nodes count from 0"},
        {"uneven", "row and col: hold 1 sources and 2 targets"},
        {"named", "is neither csr nor coo"}}) {
    fs::copy_file(folder_ / (std::string(name) + ".npz"), folder_ / "reddit_graph.npz",
                  fs::copy_options::overwrite_existing);
    test::expect_error(ErrorCode::bad_input, {"reddit_graph.npz", part},
                       [&] { load_dataset(folder_); });
  }
  ASSERT_TRUE(write_fixture("dgl_reddit_sizes"));
  test::expect_error(ErrorCode::bad_input,
                     "member node_types: has dtype '<U5', but types of nodes are the numbers 1 "
                     "(training), 2 (validation) and 3 (test)",
                     [&] { load_dataset(folder_ / "named_types"); });
  for (const auto& [name, part] :
       {std::pair("transposed",
                  "member feature: has 3 rows, but reddit_graph.npz has 6: 3 too few; "
                  "is it transposed?"),
        {"short", "member label: has 5 rows, but reddit_graph.npz has 6: 1 too few"},
        {"graph", "reddit_graph.npz: has 6 rows, but label has 5: 1 too many"}}) {
    SCOPED_TRACE(name);
    test::expect_error(ErrorCode::bad_input, part, [&] { load_dataset(folder_ / name); });
  }
  fs::remove(folder_ / "reddit_data.npz");
  test::expect_error(ErrorCode::bad_input, "reddit_data.npz", [&] { load_dataset(folder_); });
}

TEST(PublishedCounts, AreComparedWithTheFile) {
  std::vector<LogLevel> levels;
  std::string text;
  ImportOptions options;
  options.log = [&](LogLevel level, std::string_view line) {
    levels.push_back(level);
    text = line;
  };
  ImportCounts counts;
  counts.nodes = 232965;
  counts.edges_listed = 114615892;
  compare_with_published(InputFormat::dgl_reddit, counts, options);
  compare_with_published(InputFormat::graphsaint, counts, options);
  EXPECT_THAT(text, ::testing::HasSubstr("23213838 entries; the file lists 114615892"));
  counts.nodes = 6;
  compare_with_published(InputFormat::graphsaint, counts, options);
  EXPECT_THAT(levels, ::testing::ElementsAre(LogLevel::info, LogLevel::warning));
}

TEST(PublishedCounts, OfUndirectedGraphsDoNotDependOnHowOftenAnEdgeIsListed) {
  std::vector<LogLevel> levels;
  ImportOptions options;
  options.log = [&](LogLevel level, std::string_view) { levels.push_back(level); };
  const std::pair<std::int64_t, std::int64_t> graphs[] = {
      {22662, 32927}, {24492, 93050}, {11758, 519000}, {48921, 153540}};
  ImportCounts counts;
  for (const auto& [nodes, edges] : graphs) {
    counts.nodes = nodes;
    counts.entries = 2 * edges;
    for (const std::int64_t listed : {edges, 2 * edges}) {
      counts.edges_listed = listed;
      compare_with_published(InputFormat::npz, counts, options);
    }
  }
  EXPECT_THAT(levels, ::testing::AllOf(::testing::SizeIs(8), ::testing::Each(LogLevel::info)));
}

}  // namespace
}  // namespace heliograph
