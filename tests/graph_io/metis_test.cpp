#include <filesystem>
#include <string>
#include <vector>

#include "graph/io/npy.hpp"
#include "graph_io/reader_checks.hpp"
#include "support/expect_error.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class Metis : public FolderTest {
 protected:
  Metis() {
    write_npy(folder_ / "features.npy",
              std::vector<float>{1, 0, 2, 0, 0, 0, 0, 3, 0, 4, 0, 0.5F, 0, -1, 0, 7, 8, 9}, 6, 3);
    write_npy(folder_ / "labels.npy", std::vector<std::int32_t>{0, 1, 2, 1, 0, -1}, 6, 1);
  }
  Dataset load(const std::string& text, const ImportOptions& options = {},
               ImportCounts* counts = nullptr) {
    write_text(file_, text);
    return load_dataset(folder_, options, counts);
  }
  void refused(const std::string& text, const char* part) {
    SCOPED_TRACE(text);
    test::expect_error(ErrorCode::bad_input, {file_.string(), part}, [&] { load(text); });
  }
  const fs::path file_ = folder_ / "roads.graph";
};

TEST_F(Metis, GraphsAreReadWithTheArraysBesideThem) {
  ImportCounts counts;
  ImportOptions options;
  options.keep_direction = true;  // There is none to keep.
  for (const char* text :
       {"% six\n6 3\n2 5\n1 4\n%\n\n2\n1\n\n", "6 3 0\n5 2\n4 1\n \n2\r\n1\n\n\n%",
        "6 3 100\n7 2 5\n7 1 4\n7\n7 2\n7 1\n7\n", "6 3 10\n7 2 5\n7 1 4\n7\n7 2\n7 1\n7\n",
        "6 3 110 2\n9 7 8 2 5\n9 7 8 1 4\n9 7 8\n9 7 8 2\n9 7 8 1\n9 7 8\n"}) {
    SCOPED_TRACE(text);
    const Dataset dataset = load(text, options, &counts);
    expect_graph(dataset.graph);
    expect_features(dataset.features, false);
    expect_labels(dataset.labels);
    EXPECT_TRUE(dataset.graph.edge_weights.empty());
    EXPECT_EQ(counts.edges_listed, 3);
    EXPECT_EQ(counts.duplicates, 0);
    EXPECT_EQ(counts.entries, 6);
    EXPECT_EQ(counts.isolated, 2);
  }
  load("6 4\n2 2 5\n1 4 1\n\n2\n1\n\n", options, &counts);
  EXPECT_EQ(counts.edges_listed, 4);
  EXPECT_EQ(counts.duplicates, 1);
}

TEST_F(Metis, WeightsOfEdgesAreKeptAndThoseOfVerticesAreNot) {
  const std::string text = "6 3 011\n7 2 0.5 5 1\n7 1 .5 4 3\n7\n7 2 3\n7 1 1\n7\n";
  ImportOptions options;
  std::string lines;
  options.log = [&](LogLevel, std::string_view line) { lines.append(line); };
  const Graph graph = load(text, options).graph;
  expect_graph(graph);
  EXPECT_THAT(list(graph.edge_weights), ElementsAre(0.5F, 1, 0.5F, 3, 3, 1));
  EXPECT_THAT(lines, ::testing::HasSubstr("weights and sizes of vertices are not used"));
  options.ignore_weights = true;
  EXPECT_TRUE(load(text, options).graph.edge_weights.empty());
  refused("6 1 1\n2 1\n1 2\n\n\n\n\n",
          "line 3: the edge 2 - 1 has the weight 2 here and 1 in the line of 1");
  refused("6 1 1\n2 nan\n1 2\n\n\n\n\n", "line 2: the weight nan is neither 0 nor");
  refused("6 1 1\n2 x\n", "line 2: 'x' is not a weight");
  refused("6 1 1\n2\n", "line 2: '' is not a weight");
}

TEST_F(Metis, AnEdgeMustBeListedFromBothEnds) {
  refused("6 1\n%\n2\n\n\n\n\n\n", "line 3: vertex 1 lists 2, which does not list 1");
  refused("6 1\n\n1\n\n\n\n\n", "line 3: vertex 2 lists 1, which does not list 2");
  refused("6 2\n2\n1 3\n4\n\n\n\n", "line 3: vertex 2 lists 3, which does not list 2");
  refused("6 2\n\n3 4\n4\n2\n\n\n", "line 3: vertex 2 lists 3, which does not list 2");
  refused("6 2\n\n4\n\n2\n\n2\n", "line 7: vertex 6 lists 2, which does not list 6");
}

TEST_F(Metis, ErrorsNameTheLine) {
  refused("", "is empty");
  refused("% only\n", "is empty");
  refused("\n", "line 1: '' is not a size");
  refused("6\n", "line 1: '' is not a size");
  refused("6 -1\n", "line 1: '-1' is not a size");
  refused("6 1 2\n", "the format '2' is not up to three digits 0 or 1");
  refused("6 1 0001\n", "the format '0001' is not up to three digits");
  refused("6 1 1 1\n", "has 1 weights a vertex, but the format '1' none");
  refused("6 1 10 1 1\n", "'1' is one field too many");
  refused("6 1 110 9223372036854775807\n", "'9223372036854775807' is not a size");
  refused("6 1 10 9000000000000000\n1 2\n", "line 2: '' is not a weight");
  refused("6 1\n2\n1\n\n\n\n", "line 6: ends after 5 of 6 vertices: the file is truncated");
  refused("6 1\n2\n1\n\n\n\n\n3\n", "line 8: more than the 6 vertices announced");
  refused("6 1\n7\n", "line 2: neighbour '7' is not in [1, 6]");
  refused("6 1\n0\n", "line 2: neighbour '0' is not in [1, 6]");
  refused("6 1\n2,3\n", "line 2: neighbour '2,3' is not in [1, 6]");
  refused("6 1\n\n2\n", "line 3: vertex 2 lists itself; METIS counts vertices from 1");
  refused("6 2\n2\n1\n\n\n\n\n", "has 2 neighbours, but its header says 2 edges");
  refused("6 4611686018427387903\n2\n1\n\n\n\n\n", "but its header says 4611686018427387903 edges");
  refused("5 1\n2\n1\n\n\n\n", "has 5 nodes, but");
  // A number of nodes is checked against the labels before memory is allocated for it.
  refused("2147483647 1\n2\n1\n", "has 2147483647 nodes, but");
  write_text(file_, "2147483648 0\n");
  test::expect_error(ErrorCode::resource, "2^31", [&] { load_dataset(file_); });
}

TEST_F(Metis, OneOfSeveralFilesMustBeNamedGraph) {
  const std::string text = "6 3\n2 5\n1 4\n\n2\n1\n\n";
  write_text(folder_ / "other.graph", "x");
  test::expect_error(ErrorCode::bad_input, "rename the one with the graph to graph.graph",
                     [&] { load(text); });
  expect_graph(load_dataset(file_).graph);
  write_text(folder_ / "graph.graph", text);
  EXPECT_EQ(detect_format(folder_), InputFormat::metis);
  expect_graph(load_dataset(folder_).graph);
}

}  // namespace
}  // namespace heliograph
