#include <fmt/format.h>

#include "graph/io/npy.hpp"
#include "graph_io/reader_checks.hpp"
#include "support/expect_error.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using TextReaders = PythonTest;

ImportOptions base(int index_base, bool keep_direction = false) {
  ImportOptions options;
  options.index_base = index_base;
  options.keep_direction = keep_direction;
  return options;
}

TEST_F(TextReaders, EdgeListsOfBothBases) {
  WRITE_FIXTURE_OR_SKIP("edge_lists");
  for (const auto& [name, index_base] : {std::pair{"csv0", 0}, std::pair{"tsv1", 1}}) {
    SCOPED_TRACE(name);
    ImportCounts counts;
    const Dataset dataset = load_dataset(folder_ / name, base(index_base), &counts);
    EXPECT_EQ(dataset.name, name);
    expect_graph(dataset.graph);
    expect_features(dataset.features, false);
    expect_labels(dataset.labels);
    ASSERT_EQ(dataset.splits.size(), index_base == 0 ? 2u : 1u);
    expect_first_split(dataset.splits[0]);
    EXPECT_EQ(counts.edges_listed, 6);
    EXPECT_EQ(counts.self_loops, 1);
    EXPECT_EQ(counts.duplicates, 2);
    if (index_base == 0) {
      EXPECT_TRUE(dataset.graph.edge_weights.empty());
    } else {
      EXPECT_THAT(list(dataset.graph.edge_weights), ElementsAre(0.5F, 1, 0.5F, 1, 1, 1));
    }
  }
  EXPECT_THAT(load_dataset(folder_ / "tsv1", base(1)).class_names, ElementsAre("a", "b", "c"));
  const Graph directed = load_dataset(folder_ / "csv0" / "edges.csv", base(0, true)).graph;
  EXPECT_TRUE(directed.directed);
  EXPECT_THAT(list(directed.neighbours), ElementsAre(1, 4, 0, 3));
}

TEST_F(TextReaders, EdgeListErrorsNameTheLine) {
  WRITE_FIXTURE_OR_SKIP("edge_lists");
  const fs::path directory = folder_ / "csv0";
  const auto refused = [&](const std::string& text, const char* part, int index_base = 0) {
    write_text(directory / "edges.csv", text);
    test::expect_error(ErrorCode::bad_input, part,
                       [&] { load_dataset(directory, base(index_base)); });
  };
  refused("0,1\n0,6\n", "edges.csv, line 2: node 6 is not in [0, 5]");
  refused("0,1\n0,-1\n", "line 2: node -1 is not in [0, 5]");
  refused("1,2\n0,2\n", "line 2: node 0 is not in [1, 6]", 1);
  refused("1,7\n", "line 1: node 7 is not in [1, 6], the nodes of labels.npy", 1);
  refused("1,2\n5,6\n", "line 2: node 6 is not in [0, 5]; if nodes are numbered from 1, use");
  refused("0,99999999999999999999\n", "line 1: node 99999999999999999999 is not in");
  refused("a,b\nc,d\n", "line 2: 'c' is not an integer");
  refused("0,1\n\n#\n1.5,2\n", "line 4: '1.5' is not an integer: node numbers are whole");
  refused("2.0,3\n0,1\n", "line 1: '2.0' is not an integer");
  refused("1-2,3\n0,1\n", "line 1: node 1-2 is not in [0, 5]");
  refused("0\n", "line 1: 1 field between tabs or blanks");
  refused("0,1,1,1\n", "line 1: 4 fields between commas");
  refused("0;1\n0,1\n", "line 2: 1 field between semicolons");
  refused("0,1,x\n", "the weight 'x' is not a number");
  refused("0,1\n0,2,nan\n", "line 2: the weight 'nan' is neither 0 nor a normal fp32 number");
  refused("0,1,1e39\n", "line 1: the weight '1e39' is neither 0 nor");
  refused("0,1,1e-40\n", "line 1: the weight '1e-40' is neither 0 nor");
  refused("0,1,-1e-50\n", "line 1: the weight '-1e-50' is neither 0 nor");
  refused("0,1,2\n1,0\n",
          "edges.csv: the edge 1 - 0 (nodes counted from 0) has the weights 1 and 2");
  refused("0,1\n0,", "line 2: '' is not an integer");
  for (const char* field : {"1O", "\"5\"", "'5'", "0x5", "-1a", ".5e"}) {
    refused(fmt::format("{},1\n0,1\n", field),
            fmt::format("line 1: '{}' is not an integer", field).c_str());
    refused(fmt::format("source,{}\n0,1\n", field),
            fmt::format("line 1: neither an edge, as 'source' is not an integer, nor a header, as "
                        "'{}' is a number or begins like one",
                        field)
                .c_str());
  }
  refused("\xEF\xBC\x95,1\n0,1\n", "line 1: neither an edge, as '\xEF\xBC\x95' is not");
  refused("source,target,1st\n0,1,1\n", "nor a header, as '1st' is a number or begins like one");
  refused(",src,dst\n0,1,2\n", "line 1: the header's first name is empty");
  refused("from to\n1 0 1\n2 3 4\n", "line 2: 3 fields, where the header has 2: give each");
  write_text(directory / "edges.csv", "target,source,weight\n0,1,2\n");
  std::string log;
  ImportOptions options = base(0);
  options.log = [&](LogLevel, std::string_view line) { log += line; };
  EXPECT_EQ(load_dataset(directory, options).graph.neighbours.size(), 2U);
  EXPECT_NE(log.find("edges.csv: the column 'weight' is read as weights"), std::string::npos);
  options.keep_direction = true;
  for (const char* header : {"target,source,weight", "\"dst\",\"src\"", "Target,Source",
                             "To_Node_ID,From_Node_ID", "destination,source", "tgt,src"}) {
    write_text(directory / "edges.csv", fmt::format("{}\n0,1\n", header));
    test::expect_error(ErrorCode::bad_input, "line 1: the header names the target of an edge first",
                       [&] { load_dataset(directory, options); });
  }
  write_npy(directory / "features.npy", std::vector<float>(18), 3, 6);
  refused("0,1\n", "features.npy: has 3 rows, but labels.npy has 6: 3 too few; is it transposed?");
  write_text(directory / "edges.csv", "0,1\n");
  test::expect_error(ErrorCode::usage, "index-base 0|1", [&] { load_dataset(directory); });
  test::expect_error(ErrorCode::usage, "index-base 0|1", [&] { load_dataset(directory, base(2)); });
  write_text(directory / "edges.tsv", "0 1\n");
  test::expect_error(ErrorCode::bad_input, "keep one of them",
                     [&] { load_dataset(directory, base(0)); });
}

TEST_F(TextReaders, AHeaderMustNameTheEndsFirst) {
  WRITE_FIXTURE_OR_SKIP("edge_lists");
  const fs::path directory = folder_ / "csv0";
  const std::pair<const char*, const char*> ends_third[] = {
      {"id,source,target", "id"},
      {"time,u,v", "time"},
      {"head,relation,tail", "relation"},
      {"source,type,target", "type"},
      {"target,weight,source", "weight"},
      {"u,w,v", "w"},
      {"index,node_1,node_2", "index"},
      {"entity1,relation,entity2", "relation"},
      {":START_ID,type,:END_ID", "type"},
      {"row,value,col", "value"},
      {"\"source_index\",\"w\",\"target_index\"", "w"},
      {"Subject,Predicate,Object", "Predicate"}};
  for (const auto& [header, extra] : ends_third) {
    write_text(directory / "edges.csv", fmt::format("{}\n0,1,2\n", header));
    test::expect_error(
        ErrorCode::bad_input,
        fmt::format("the first two columns are read as the ends: leave the column '{}' out, or "
                    "write it third",
                    extra)
            .c_str(),
        [&] { load_dataset(directory, base(0)); });
  }
  for (const char* header : {"source,target,v", "from,to,subject", "i,j,v", "a,b,v", "u,v,t"}) {
    write_text(directory / "edges.csv", fmt::format("{}\n0,1,2\n", header));
    EXPECT_EQ(load_dataset(directory, base(0)).graph.edge_weights[0], 2) << header;
  }
}

TEST_F(TextReaders, TheFirstLineOfEdgesDecidesWhatSeparatesFields) {
  WRITE_FIXTURE_OR_SKIP("edge_lists");
  const fs::path directory = folder_ / "csv0";
  std::string expected;
  for (const char* text : {"0,1\n2,3\n", "source;target\n0;1\n 2 ; 3\n", "% KONECT\n0\t1\n2 3\n",
                           "# SNAP\n0 1\n2 3\n"}) {
    SCOPED_TRACE(text);
    write_text(directory / "edges.csv", text);
    const std::string hash = dataset_hash(load_dataset(directory, base(0)));
    if (expected.empty()) expected = hash;
    EXPECT_EQ(hash, expected);
  }
}

TEST_F(TextReaders, EdgesDecideWhetherLabelsOrFeaturesAreTooShort) {
  WRITE_FIXTURE_OR_SKIP("edge_lists");
  const fs::path directory = folder_ / "csv0";
  const auto refused = [&](const std::string& edges, int index_base, const char* part) {
    write_text(directory / "edges.csv", edges);
    test::expect_error(ErrorCode::bad_input, part,
                       [&] { load_dataset(directory, base(index_base)); });
  };
  write_npy(directory / "features.npy", std::vector<float>(21), 7, 3);
  refused("0,6\n", 0, "labels.npy: has 6 rows, but features.npy has 7: 1 too few");
  refused("1,7\n", 1, "labels.npy: has 6 rows, but features.npy has 7: 1 too few");
  refused("0,5\n", 0, "features.npy: has 7 rows, but labels.npy has 6: 1 too many");
  refused("0,7\n", 0, "line 1: node 7 is not in [0, 6]");
  write_npy(directory / "features.npy", std::vector<float>(15), 5, 3);
  refused("0,5\n", 0, "features.npy: has 5 rows, but labels.npy has 6: 1 too few");
}

TEST_F(TextReaders, TablesThatAreNoArraysAreNamed) {
  WRITE_FIXTURE_OR_SKIP("edge_lists");
  const fs::path directory = folder_ / "csv0";
  for (const char* name : {"train_mask.csv", "x.pt", "nodes.tsv", "README.md"}) {
    write_text(directory / name, "0\n");
  }
  ImportOptions options = base(0);
  std::string lines;
  options.log = [&](LogLevel, std::string_view text) { lines.append(text).append("\n"); };
  load_dataset(directory, options);
  EXPECT_NE(lines.find("left unread: nodes.tsv, train_mask.csv and x.pt\n"), std::string::npos)
      << lines;
  fs::remove(directory / "features.npy");
  test::expect_error(ErrorCode::bad_input,
                     "left unread: nodes.tsv, train_mask.csv and x.pt; arrays are read from .npy "
                     "files, which numpy.save writes",
                     [&] { load_dataset(directory, base(0)); });
}

TEST_F(TextReaders, ArraysBesideTheGraphAreRequiredAndMustFit) {
  WRITE_FIXTURE_OR_SKIP("edge_lists");
  const fs::path directory = folder_ / "csv0";
  const auto refused = [&](const char* part) {
    test::expect_error(ErrorCode::bad_input, part, [&] { load_dataset(directory, base(0)); });
  };
  fs::copy(folder_ / "tsv1" / "train_index.npy", directory);
  refused("keep one of the two");
  for (const char* name : {"train_mask.npy", "val_mask.npy", "test_mask.npy"}) {
    fs::remove(directory / name);
  }
  refused("train_index.npy: is given, but nothing says which nodes are validation nodes");
  fs::copy(folder_ / "tsv1" / "val_index.npy", directory);
  fs::copy(folder_ / "tsv1" / "test_index.npy", directory);
  expect_first_split(load_dataset(directory, base(0)).splits.at(0));
  fs::copy(folder_ / "tsv1" / "train_index.npy", directory / "val_index.npy",
           fs::copy_options::overwrite_existing);
  refused("val_index.npy: split 0: node 1 is in another set");
  fs::copy(directory / "labels.npy", directory / "test_index.npy",
           fs::copy_options::overwrite_existing);
  fs::copy(folder_ / "tsv1" / "val_index.npy", directory / "val_index.npy",
           fs::copy_options::overwrite_existing);
  fs::remove(directory / "train_index.npy");
  fs::copy(directory / "labels.npy", directory / "train_index.npy");
  refused("train_index.npy: entry 5 is node -1, which is not in [0, 6)");
  fs::remove(directory / "labels.npy");
  refused(
      "has no labels, which may be named labels, node_labels, label or y; found: features, "
      "test_index, train_index and val_index; left unread: nothing");
  fs::remove(directory / "features.npy");
  refused("feat or features.mtx (if nodes have none, numpy.save a column of ones); found");
}

TEST_F(TextReaders, ArraysBesideTheGraphMayHaveOtherNames) {
  WRITE_FIXTURE_OR_SKIP("edge_lists");
  const fs::path directory = folder_ / "tsv1";
  fs::rename(directory / "features.npy", directory / "x.npy");
  fs::rename(directory / "labels.npy", directory / "y.npy");
  fs::rename(directory / "train_index.npy", directory / "train_idx.npy");
  fs::rename(directory / "val_index.npy", directory / "valid_idx.npy");
  fs::rename(directory / "test_index.npy", directory / "test_idx.npy");
  fs::copy(directory / "y.npy", directory / "year.npy");
  ImportOptions options = base(1);
  std::string lines;
  options.log = [&](LogLevel, std::string_view text) { lines.append(text).append("\n"); };
  const Dataset dataset = load_dataset(directory, options);
  expect_features(dataset.features, false);
  expect_labels(dataset.labels);
  expect_first_split(dataset.splits.at(0));
  EXPECT_NE(lines.find("left unread: year\n"), std::string::npos) << lines;
}

TEST_F(TextReaders, MatrixMarketAsScipyWritesIt) {
  WRITE_FIXTURE_OR_SKIP("market");
  for (const char* name : {"general", "pattern", "symmetric", "sparse", "dense"}) {
    SCOPED_TRACE(name);
    ImportCounts counts;
    const Dataset dataset = load_dataset(folder_ / name, {}, &counts);
    expect_graph(dataset.graph);
    expect_features(dataset.features, std::string(name) == "sparse");
    expect_labels(dataset.labels);
    EXPECT_EQ(counts.self_loops, 1);
  }
  const Graph file = load_dataset(folder_ / "pattern" / "roads.mtx", base(-1, true)).graph;
  EXPECT_TRUE(file.directed);
  EXPECT_THAT(list(file.offsets), ElementsAre(0, 2, 4, 4, 4, 4, 4));
  EXPECT_FALSE(load_dataset(folder_ / "symmetric", base(-1, true)).graph.directed);
}

TEST_F(TextReaders, MatrixMarketErrorsNameTheLine) {
  WRITE_FIXTURE_OR_SKIP("market");
  const fs::path file = folder_ / "general" / "graph.mtx";
  const auto refused = [&](const std::string& text, const char* part) {
    write_text(file, text);
    SCOPED_TRACE(text);
    test::expect_error(ErrorCode::bad_input, part, [&] { load_dataset(file); });
    test::expect_error(ErrorCode::bad_input, file.string(), [&] { load_dataset(file); });
  };
  const std::string head = "%%MatrixMarket matrix coordinate pattern general\n";
  refused("", "is empty");
  refused("6 6 1\n1 1\n", "does not start with %%MatrixMarket");
  refused("%%MatrixMarket matrix coordinate complex general\n",
          "'complex' values are not supported");
  refused("%%MatrixMarket matrix coordinate real skew-symmetric\n", "'skew-symmetric' matrices");
  refused("%%MatrixMarket matrix array real general\n6 6\n", "not an array");
  refused(head, "line of sizes is missing");
  refused(head + "6 5 0\n", "not 6 x 5");
  refused(head + "6 6 x\n", "'x' is not a size");
  refused(head + "6 6 2\n1 2\n", "ends after 1 of 2 entries");
  refused(head + "6 6 1\n1 2\n2 3\n", "line 4: more than the 1 entries");
  refused(head + "%\n6 6 1\n0 2\n", "line 4: row 0 is not in [1, 6]");
  refused(head + "6 6 1\n1 7\n", "line 3: column 7 is not in [1, 6]");
  refused(head + "6 6 1\n1 2 3\n", "'3' is one field too many");
  refused(head + "5 5 1\n1 2\n", "has 5 nodes, but");
  // A number of nodes is checked against the labels before memory is allocated for it.
  refused(head + "2147483647 2147483647 1\n1 2\n", "has 2147483647 nodes, but");
  write_text(file, head + "2147483648 2147483648 0\n");
  test::expect_error(ErrorCode::resource, "2^31", [&] { load_dataset(file); });
  write_npy(folder_ / "general" / "features.npy", std::vector<float>(18), 3, 6);
  write_text(file, head + "6 6 1\n1 2\n");
  test::expect_error(ErrorCode::bad_input, "features.npy: has 3 rows, but graph.mtx has 6: 3 too",
                     [&] { load_dataset(file); });
  fs::remove(folder_ / "general" / "features.npy");
  write_text(folder_ / "general" / "features.mtx",
             "%%MatrixMarket matrix coordinate real general\n2147483647 3 1\n1 1 1\n");
  test::expect_error(ErrorCode::bad_input, "features.mtx: has 2147483647 nodes, but",
                     [&] { load_dataset(file); });
  write_text(folder_ / "general" / "features.mtx",
             "%%MatrixMarket matrix array real general\n2147483647 0\n");
  test::expect_error(ErrorCode::bad_input, "features.mtx, line 2: the matrix has no columns",
                     [&] { load_dataset(file); });
}

TEST_F(TextReaders, AMessageAboutABinaryFileStaysLegible) {
  WRITE_FIXTURE_OR_SKIP("edge_lists");
  const fs::path file = folder_ / "csv0" / "edges.csv";
  write_text(file, "0,1\n0,\x1b[31m" + std::string(100000, 'x'));
  const std::string sentence = test::expect_error(ErrorCode::bad_input, "line 2: '?[31mxxx",
                                                  [&] { load_dataset(file, base(0)); });
  EXPECT_LT(sentence.size(), 400u + file.string().size());
}

}  // namespace
}  // namespace heliograph
