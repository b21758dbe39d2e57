#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "graph/io/line_reader.hpp"
#include "graph_io/reader_checks.hpp"
#include "support/expect_error.hpp"

// Graphs as the Open Graph Benchmark publishes them.

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Ogb : public PythonTest {
 protected:
  void expect_whole(const fs::path& path) {
    EXPECT_EQ(detect_format(path), InputFormat::ogb);
    ImportCounts counts;
    const Dataset dataset = load_dataset(path, {}, &counts);
    expect_graph(dataset.graph);
    EXPECT_EQ(counts.edges_listed, 6);
    EXPECT_EQ(counts.unlabelled, 1);
    expect_features(dataset.features, false);
    expect_labels(dataset.labels);
    ASSERT_EQ(dataset.splits.size(), 1U);
    expect_first_split(dataset.splits[0]);
  }

  /// Expects a refusal while raw/FILE has this text, which need not be compressed.
  void refused(const char* file, const std::string& text, const char* part) {
    const fs::path path = folder_ / "tables" / "raw" / file;
    const std::string before = read_text(path);
    write_text(path, text);
    SCOPED_TRACE(text);
    test::expect_error(ErrorCode::bad_input, {file, part},
                       [&] { load_dataset(folder_ / "tables"); });
    write_text(path, before);
  }
};

TEST_F(Ogb, TablesAndArchivesAreRead) {
  WRITE_FIXTURE_OR_SKIP("ogb");
  expect_whole(folder_ / "tables");
  expect_whole(folder_ / "archives");
}

TEST_F(Ogb, NodesWithoutFeaturesGetTheMeanOfTheirEdges) {
  WRITE_FIXTURE_OR_SKIP("ogb");
  const Dataset dataset = load_dataset(folder_ / "edges");
  expect_graph(dataset.graph);
  // Node 0 has edges 0, 1, 2 and 5, node 1 has 0, 1, 2 and 4, node 2 both ends of edge 3.
  EXPECT_THAT(list(dataset.features.dense),
              ElementsAre(2, 0.5F, 1.75F, 0.5F, 3, 0.5F, 4, 0.5F, 5, 0.5F, 0, 0));
  EXPECT_EQ(dataset.labels.task, Task::multilabel);
}

TEST_F(Ogb, FeaturesOfFewEdgesAreNotThoseOfManyNodes) {
  WRITE_FIXTURE_OR_SKIP("ogb");
  const fs::path raw = folder_ / "edges" / "raw";
  std::string labels;
  for (int v = 0; v < 96; ++v) labels += "0,1\n";
  write_text(raw / "num-node-list.csv.gz", "96\n");
  write_text(raw / "node-label.csv.gz", labels);
  test::expect_error(ErrorCode::bad_input,
                     {"edge-feat.csv.gz", "has features for the edges of 5 of 96 nodes: too few"},
                     [&] { load_dataset(folder_ / "edges"); });
}

TEST_F(Ogb, ListedFilesAreNamedIfTheyAreNotRead) {
  WRITE_FIXTURE_OR_SKIP("ogb");
  std::string text;
  ImportOptions options;
  options.log = [&](LogLevel, std::string_view line) { text += std::string(line) + "\n"; };
  load_dataset(folder_ / "tables", options);
  EXPECT_THAT(text, HasSubstr("left unread: node_year.csv.gz"));
  text.clear();
  load_dataset(folder_ / "edges", options);
  EXPECT_THAT(text, HasSubstr("each gets the mean of its edges'"));
  // Without one of its lists, a split is not read.
  const fs::path lists = folder_ / "tables" / "split";
  const fs::path name = fs::directory_iterator(lists)->path();
  fs::remove(name / "train.csv.gz");
  options.requires_splits = false;
  text.clear();
  load_dataset(folder_ / "tables", options);
  EXPECT_THAT(text, HasSubstr("split/" + name.filename().string() + "/test.csv.gz"));
}

TEST_F(Ogb, DamageIsRefusedByName) {
  WRITE_FIXTURE_OR_SKIP("ogb");
  const std::string edges = read_text(folder_ / "tables" / "raw" / "edge.csv.gz");
  refused("edge.csv.gz", edges.substr(0, edges.size() / 2), "is damaged: it ends too early");
  std::string changed = edges;
  changed[changed.size() - 6] ^= 1;  // In the checksum.
  refused("edge.csv.gz", changed, "is damaged: ");
  refused("edge.csv.gz", "0,1\n", "has 1 edges, not 6 as num-edge-list says");
  refused("edge.csv.gz", "0,6\n", "line 1: node 6 is not in [0, 5]");
  refused(
      "edge.csv.gz", "1,6\n2,3\n",
      "line 1: node 6 is not in [0, 5], the nodes of node-label.csv.gz; all would fit if 1 were "
      "subtracted: nodes count from 0");
  refused("edge.csv.gz", "0,1,5\n", "line 1: 3 fields between commas; a line here has the 2 nodes");
  refused("num-node-list.csv.gz", "6\n7\n", "holds 2 numbers; only data of one graph");
  refused("num-edge-list.csv.gz", "1e99\n", "is not a 64-bit integer");
  refused("node-label.csv.gz", "0\n1\n", "has 2 rows for 6 nodes");
  refused("node-label.csv.gz", "0\nx\n", "line 2: 'x' is not a number");
  refused("node-feat.csv.gz", "0,1\n1\n", "line 2: 1 fields, where the first line has 2");
  refused("node-feat.csv.gz", "0,1e39\n", "is beyond fp32");
  refused("node-feat.csv.gz", "0,1\n", "has 1 rows");
  fs::create_directory(folder_ / "tables" / "split" / "other");
  fs::copy_file(folder_ / "tables" / "split" / "time" / "train.csv.gz",
                folder_ / "tables" / "split" / "other" / "train.csv.gz");
  test::expect_error(ErrorCode::bad_input, "has other and time; keep one of them",
                     [&] { load_dataset(folder_ / "tables"); });
  fs::remove_all(folder_ / "tables" / "split" / "other");
  fs::remove(folder_ / "tables" / "split" / "time" / "train.csv.gz");
  test::expect_error(ErrorCode::bad_input, "time/train.csv.gz: No such file",
                     [&] { load_dataset(folder_ / "tables"); });
  ImportOptions options;
  options.requires_splits = false;
  EXPECT_TRUE(load_dataset(folder_ / "tables", options).splits.empty());
  fs::create_directory(folder_ / "tables" / "raw" / "relations");
  test::expect_error(ErrorCode::bad_input, "several types of nodes",
                     [&] { load_dataset(folder_ / "tables"); });
}

TEST_F(Ogb, FaultsOfArchivesNameTheMember) {
  WRITE_FIXTURE_OR_SKIP("ogb_bad");
  test::expect_error(ErrorCode::bad_input,
                     "member edge_index: entry [0, 5] is node 6, which is not in [0, 5]; all would "
                     "fit if 1 were subtracted: nodes count from 0",
                     [&] { load_dataset(folder_ / "from_one"); });
  test::expect_error(ErrorCode::bad_input,
                     "data.npz: member node_feat: has 5 rows, but node_label has 6: 1 too few",
                     [&] { load_dataset(folder_ / "short"); });
}

using LineReaderTest = test::FolderTest;

TEST_F(LineReaderTest, LinesMayCrossBuffersAndNeedNoEnd) {
  const fs::path path = folder_ / "lines";
  const std::string line(300'000, 'a');
  std::ofstream(path) << "\xef\xbb\xbf"
                      << "first\r\n\n"
                      << line << "\n"
                      << line << "b";
  LineReader lines(path);
  std::string_view read;
  ASSERT_TRUE(lines.next(read));
  EXPECT_EQ(read, "first");
  ASSERT_TRUE(lines.next(read));
  EXPECT_EQ(read, "");
  ASSERT_TRUE(lines.next(read));
  EXPECT_EQ(read, line);
  ASSERT_TRUE(lines.next(read));
  EXPECT_EQ(read, line + "b");
  EXPECT_EQ(lines.number(), 4);
  EXPECT_FALSE(lines.next(read));
}

}  // namespace
}  // namespace heliograph
