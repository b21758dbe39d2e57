#include "graph/io/npz.hpp"

#include "graph_io/reader_checks.hpp"
#include "support/expect_error.hpp"

namespace heliograph {
namespace {

using ::testing::ElementsAre;
using NpzTest = PythonTest;

TEST_F(NpzTest, CoraStyleStoredAndDeflated) {
  WRITE_FIXTURE_OR_SKIP("npz");
  for (const char* name : {"cora.npz", "cora_deflated.npz", "pickled_extra.npz"}) {
    SCOPED_TRACE(name);
    ImportCounts counts;
    const Dataset dataset = load_dataset(folder_ / name, {}, &counts);
    expect_graph(dataset.graph);
    expect_features(dataset.features, true);
    expect_labels(dataset.labels);
    EXPECT_TRUE(dataset.splits.empty());
    EXPECT_TRUE(dataset.class_names.empty());
    EXPECT_EQ(counts.edges_listed, 5);
    EXPECT_EQ(counts.self_loops, 1);
    EXPECT_EQ(counts.duplicates, 1);
    EXPECT_EQ(counts.entries, 6);
    EXPECT_EQ(counts.isolated, 2);
    EXPECT_EQ(counts.unlabelled, 1);
    EXPECT_THAT(list(dataset.graph.edge_weights), ElementsAre(1, 2.5F, 1, 1, 1, 2.5F));
  }
  EXPECT_EQ(load_dataset(folder_ / "cora.npz").name, "cora");

  std::string lines;
  ImportOptions options;
  options.log = [&](LogLevel, std::string_view text) { lines.append(text).append("\n"); };
  load_dataset(folder_ / "pickled_extra.npz", options);
  EXPECT_NE(lines.find("left unread: class_names and node_names\n"), std::string::npos) << lines;
  options.index_base = 1;
  test::expect_error(ErrorCode::usage, "index-base does not apply: ", [&] {
    load_dataset(folder_ / "cora.npz", options);
  });
}

TEST_F(NpzTest, TolokersStyleStoredAndDeflated) {
  WRITE_FIXTURE_OR_SKIP("npz");
  for (const char* name : {"tolokers.npz", "tolokers_deflated.npz"}) {
    SCOPED_TRACE(name);
    ImportOptions options;
    std::string warnings;
    options.log = [&](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) warnings += text;
    };
    ImportCounts counts;
    const Dataset dataset = load_dataset(folder_ / name, options, &counts);
    expect_graph(dataset.graph);
    expect_features(dataset.features, false);
    expect_labels(dataset.labels);
    ASSERT_EQ(dataset.splits.size(), 2u);
    expect_first_split(dataset.splits[0]);
    expect_second_split(dataset.splits[1]);
    EXPECT_EQ(warnings, "split 0: left out 1 node without a label");
    EXPECT_EQ(counts.edges_listed, 6);
    EXPECT_EQ(counts.duplicates, 2);
  }
}

TEST_F(NpzTest, WeightsOfEdges) {
  WRITE_FIXTURE_OR_SKIP("npz_names");
  const Dataset weighted = load_dataset(folder_ / "weighted.npz");
  expect_graph(weighted.graph);
  EXPECT_THAT(list(weighted.graph.edge_weights), ElementsAre(2, 1, 2, 0.5F, 0.5F, 1));
  const Dataset ones = load_dataset(folder_ / "ones.npz");
  EXPECT_TRUE(ones.graph.edge_weights.empty());
  ImportOptions ignore;
  ignore.ignore_weights = true;
  const auto refused = [&](const char* name, const char* part) {
    test::expect_error(ErrorCode::bad_input, part, [&] { load_dataset(folder_ / name); });
    EXPECT_EQ(dataset_hash(load_dataset(folder_ / name, ignore)), dataset_hash(ones));
  };
  refused("few_weights.npz",
          "member edge_weight: has shape (5,); 6 edges have weights of shape (6,)");
  refused("nan_weight.npz",
          "member edge_weight: the weight of edge 4 is nan, which is neither 0 nor a normal");
  refused("tiny_weight.npz", "edge_weight: entry 3 is 1e-60, which is too small for fp32");
  refused("two_weights.npz", "two_weights.npz: the edge 1 - 0 (nodes counted from 0) has the");
  EXPECT_EQ(dataset_hash(load_dataset(folder_ / "weighted.npz", ignore)), dataset_hash(ones));
}

TEST_F(NpzTest, DirectionIsKeptOnDemand) {
  WRITE_FIXTURE_OR_SKIP("npz");
  ImportOptions options;
  options.keep_direction = true;
  for (const char* name : {"cora.npz", "tolokers.npz"}) {
    const Graph graph = load_dataset(folder_ / name, options).graph;
    EXPECT_TRUE(graph.directed);
    // Rows list in-neighbours: 0 <- 1, 4 and 1 <- 0, 3.
    EXPECT_THAT(list(graph.offsets), ElementsAre(0, 2, 4, 4, 4, 4, 4));
    EXPECT_THAT(list(graph.neighbours), ElementsAre(1, 4, 0, 3));
  }
}

TEST_F(NpzTest, DenseAttributesNamesMasksAndMultilabels) {
  WRITE_FIXTURE_OR_SKIP("npz");
  expect_features(load_dataset(folder_ / "dense.npz").features, false);

  const Dataset extras = load_dataset(folder_ / "extras.npz");
  EXPECT_THAT(extras.class_names, ElementsAre("a", "gr\u00fcn", "c", "never seen"));
  EXPECT_EQ(extras.labels.classes, 4);
  ASSERT_EQ(extras.splits.size(), 2u);
  expect_second_split(extras.splits[1]);

  const Dataset multi = load_dataset(folder_ / "multilabel.npz");
  EXPECT_EQ(multi.labels.task, Task::multilabel);
  EXPECT_EQ(multi.labels.classes, 2);
  EXPECT_THAT(list(multi.labels.labelled), ElementsAre(1, 1, 1, 0, 1, 1));
  EXPECT_THAT(list(multi.labels.indicators), ElementsAre(1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0));
  ASSERT_EQ(multi.splits.size(), 1u);
  using enum Role;
  EXPECT_THAT(list(multi.splits[0].role), ElementsAre(train, train, validation, none, test, test));
}

TEST_F(NpzTest, UnsortedAndDoubledColumnsAreSortedAndSummed) {
  WRITE_FIXTURE_OR_SKIP("npz");
  const Features features = load_dataset(folder_ / "unsorted.npz").features;
  EXPECT_THAT(list(features.offsets), ElementsAre(0, 2, 3, 3, 3, 3, 3));
  EXPECT_THAT(list(features.columns), ElementsAre(0, 2, 1));
  EXPECT_THAT(list(features.values), ElementsAre(1, 2, 6));
}

TEST_F(NpzTest, NamesOfOtherFrameworks) {
  WRITE_FIXTURE_OR_SKIP("npz_names");
  ImportOptions options;
  std::string lines;
  options.log = [&](LogLevel, std::string_view text) { lines.append(text).append("\n"); };
  for (const char* name : {"pyg.npz", "dgl.npz", "ends.npz"}) {
    SCOPED_TRACE(name);
    const Dataset dataset = load_dataset(folder_ / name, options);
    expect_graph(dataset.graph);
    expect_features(dataset.features, false);
    expect_labels(dataset.labels);
    expect_first_split(dataset.splits.at(0));
  }
  EXPECT_NE(lines.find("pyg.npz: left unread: edge_attr\n"), std::string::npos) << lines;
  EXPECT_EQ(lines.find("dgl.npz: left unread"), std::string::npos) << lines;
  expect_second_split(load_dataset(folder_ / "pyg.npz").splits.at(1));

  // PyTorch Geometric's WikiCS has many splits but one test set.
  const auto several = load_dataset(folder_ / "one_test_mask.npz").splits;
  ASSERT_EQ(several.size(), 2u);
  using enum Role;
  EXPECT_THAT(list(several[0].role), ElementsAre(train, train, validation, none, test, none));
  EXPECT_THAT(list(several[1].role), ElementsAre(validation, none, train, train, test, none));

  options.index_base = 1;
  expect_graph(load_dataset(folder_ / "from_one.npz", options).graph);
  // Of two edges, the name says which axis is which: 0 -> 1 and 0 -> 4.
  EXPECT_THAT(list(load_dataset(folder_ / "two_edges.npz").graph.neighbours),
              ElementsAre(1, 4, 0, 0));
}

TEST_F(NpzTest, ErrorsSayWhatWasFoundAndWhatToDo) {
  WRITE_FIXTURE_OR_SKIP("npz_names");
  const auto refused = [&](const char* name, const char* part) {
    SCOPED_TRACE(name);
    test::expect_error(ErrorCode::bad_input, part, [&] { load_dataset(folder_ / name); });
  };
  refused(
      "other_names.npz",
      "has no features, which may be named node_features, attr_matrix, features, feature, x, feat "
      "or attr_indptr; found: edge_index; left unread: nodes and target");
  refused("no_y.npz", "found: edge_index and x; left unread: target");
  refused("both.npz", "keep one of the two");
  refused("from_one.npz",
          "entry [0, 6] is node 6, which is not in [0, 5]; all would fit if nodes were numbered "
          "from 1");
  refused("short.npz", "member y: has 4 rows, but x has 6: 2 too few");
  refused("few_rows.npz", "member x: has 4 rows, but y has 6: 2 too few");
  refused("transposed.npz", "member x: has 3 rows, but y has 6: 3 too few; is it transposed?");
  refused("adjacency.npz", "member adj_shape: has 9 rows, but labels has 6: 3 too many");
  refused("ends_short.npz", "hold 6 sources and 5 targets");
  refused("one_end.npz", "has a member src but no dst: edges need both ends");
  refused("lists_from_one.npz", "all would fit if 1 were subtracted: nodes count from 0");
  refused("lists_of_flags.npz", "member train_idx: holds only 0 and 1 (or false and true), but");
  refused("lists_of_numbers.npz", "member val_idx: holds only 0 and 1");
  refused("lists_twice.npz", "member train_idx: lists node 3 twice");
  refused("lists_beyond.npz", "entry 1 is node 7, which is not in [0, 6)");
}

TEST_F(NpzTest, WrongSplitsAndMissingLabelsAreErrorsOnlyIfTheyAreNeeded) {
  WRITE_FIXTURE_OR_SKIP("npz_names");
  for (const auto& [name, fault] :
       {std::pair{"bad_mask.npz", "member val_mask: split 0: is empty"},
        std::pair{"one_mask.npz", "member train_mask: is given, but"}}) {
    ImportOptions options;
    test::expect_error(ErrorCode::bad_input, fault, [&] { load_dataset(folder_ / name, options); });
    std::string warnings;
    options.log = [&](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) warnings += text;
    };
    options.requires_splits = false;
    const Dataset dataset = load_dataset(folder_ / name, options);
    expect_labels(dataset.labels);
    EXPECT_TRUE(dataset.splits.empty());
    EXPECT_NE(warnings.find(fault), std::string::npos) << warnings;
    EXPECT_NE(warnings.find("own splits are unused"), std::string::npos) << warnings;
  }
  ImportOptions options;
  test::expect_error(ErrorCode::bad_input, "has no labels",
                     [&] { load_dataset(folder_ / "unlabelled.npz", options); });
  options.requires_labels = false;
  const Dataset dataset = load_dataset(folder_ / "unlabelled.npz", options);
  expect_graph(dataset.graph);
  EXPECT_THAT(list(dataset.labels.class_of), ElementsAre(-1, -1, -1, -1, -1, -1));
  EXPECT_TRUE(dataset.splits.empty());
}

TEST_F(NpzTest, LabelsOfNanAreUnlabelled) {
  WRITE_FIXTURE_OR_SKIP("npz_names");
  const Labels labels = load_dataset(folder_ / "nan.npz").labels;
  EXPECT_THAT(list(labels.class_of), ElementsAre(0, 1, -1, 1, 0, 1));
}

TEST_F(NpzTest, LabelsAreNumbersOnDemand) {
  WRITE_FIXTURE_OR_SKIP("npz_numbers");
  ImportOptions numbers;
  numbers.regression = true;
  ImportCounts counts;
  const Dataset dataset = load_dataset(folder_ / "numbers.npz", numbers, &counts);
  EXPECT_EQ(dataset.labels.task, Task::regression);
  EXPECT_EQ(dataset.labels.classes, 1);
  EXPECT_THAT(list(dataset.labels.values), ElementsAre(0.5F, -1, 2, 3, 4e9F, ::testing::IsNan()));
  EXPECT_EQ(counts.unlabelled, 1);
  test::expect_error(ErrorCode::bad_input, {"entry 0 is 0.5", "regression reads numbers"},
                     [&] { load_dataset(folder_ / "numbers.npz"); });
  // Whole numbers need the option too, and several columns are no target.
  EXPECT_THAT(list(load_dataset(folder_ / "whole.npz", numbers).labels.values),
              ElementsAre(3, 1, 2, 3, 0, -1));
  EXPECT_EQ(load_dataset(folder_ / "whole.npz").labels.task, Task::multiclass);
  test::expect_error(ErrorCode::bad_input, "one number a node",
                     [&] { load_dataset(folder_ / "columns.npz", numbers); });
  test::expect_error(ErrorCode::bad_input, "the target of node 1 is inf",
                     [&] { load_dataset(folder_ / "infinite.npz", numbers); });
}

TEST_F(NpzTest, BadArchivesAreRefusedByName) {
  WRITE_FIXTURE_OR_SKIP("npz_bad");
  const auto refused = [&](const std::string& name, const char* part) {
    SCOPED_TRACE(name);
    const auto path = folder_ / (name + ".npz");
    test::expect_error(ErrorCode::bad_input, part, [&] { load_dataset(path); });
    test::expect_error(ErrorCode::bad_input, path.string(), [&] { load_dataset(path); });
  };
  refused(
      "pickled_labels",
      "labels: holds pickled objects, which are never interpreted: save it with a numeric dtype "
      "(numpy.unique(names, return_inverse=True) numbers names)");
  refused("twice", "has two members labels.npy");
  refused("no_labels", "has no labels");
  refused("no_graph", "has no graph");
  refused("no_features", "has no features");
  refused("no_shape", "has no member adj_shape");
  refused("not_square", "6 x 7, not square");
  refused("column", "entry 2 is 6, which is not in [0, 6)");
  refused(
      "column_from_one",
      "entry 2 is 6, which is not in [0, 6); all would fit if 1 were subtracted: indices count");
  refused("rows", "member attr_matrix: has 5 rows, but adj_shape has 6: 1 too few");
  refused("falls", "falls at row 1");
  refused("ends", "ends at 4, but there are 5 indices");
  refused("short_data", "shape (4,); 5 edges have weights of shape (5,)");
  refused("label_low", "label of node 2 is -2");
  refused("label_high", "label of node 2 is 70000");
  refused("label_none", "no node has a label");
  refused("label_rows", "member labels: has 5 rows, but adj_shape has 6: 1 too few");
  refused("label_part", "only some labels of node 5 are -1");
  refused("label_two", "label [5, 0] is 2");
  refused("label_axes", "labels are (nodes,) or (nodes, classes)");
  refused("label_float", "entry 2 is 1.5");
  refused("few_names", "2 names, but the labels go up to class 2");
  refused("sparse_nan", "feature of node 3, column 0 is nan");
  refused("huge", "member adj_indptr: holds 7 values for 2147483648 rows");
  refused("inf", "feature of node 4, column 2 is inf");
  refused("feature_axes", "features are nodes x columns");
  refused("feature_strings",
          "holds text (dtype '<U1') instead of numbers: .astype('int64') converts");
  refused("edge_range", "entry [1, 1] is node 6, which is not in [0, 5]");
  refused("edge_shape", "edges are (edges, 2)");
  refused("overlap", "split 0: node 0 is in another set");
  refused("empty", "val_masks: split 0: is empty");
  refused("mask_shape", "a mask is (6,), (splits, 6) or (6, splits)");
  refused("mask_list", "(6, splits); lists of nodes are named train_idx, val_idx and test_idx");
  refused("mask_splits", "train_masks: holds 2 splits, but ");
  refused("mask_value", "neither 0 nor 1");
  refused("no_nodes", "the graph has no nodes");
  refused("mask_missing", "nothing says which nodes are validation nodes");
  refused("mask_unlabelled", "test_masks: split 0: is empty");
}

/// A changed byte is found, or it is one that holds no data: times, attributes, and the names of
/// members that are not read. If it is in the name of an optional member, that is named as unread.
TEST_F(NpzTest, DamageIsAnErrorOrHarmless) {
  WRITE_FIXTURE_OR_SKIP("npz");
  for (const char* name : {"cora.npz", "cora_deflated.npz"}) {
    ImportOptions options;
    options.ignore_weights = true;
    const std::string unweighted = dataset_hash(load_dataset(folder_ / name, options));
    options.ignore_weights = false;
    std::string log;
    options.log = [&](LogLevel, std::string_view text) { log += text; };
    const std::string hash = dataset_hash(load_dataset(folder_ / name));
    const std::string whole = read_text(folder_ / name);
    std::size_t caught = 0;
    const auto path = folder_ / "damaged.npz";
    for (std::size_t i = 0; i < whole.size(); i += 13) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
      write_text(path, damaged);
      const std::string said = test::caught_from([&] {
                                 log.clear();
                                 const std::string got = dataset_hash(load_dataset(path, options));
                                 const bool unread = log.find("left unread: ") != log.npos;
                                 EXPECT_TRUE(got == hash || (unread && got == unweighted))
                                     << name << " byte " << i;
                               }).text;
      if (said.empty()) continue;
      EXPECT_NE(said.find(path.string()), std::string::npos);
      ++caught;
    }
    EXPECT_GT(caught, whole.size() / 13 / 2) << name;
    for (std::size_t length = 0; length < whole.size(); length += 61) {
      write_text(path, whole.substr(0, length));
      test::expect_error(ErrorCode::bad_input, path.string(), [&] { load_dataset(path); });
    }
  }
}

}  // namespace
}  // namespace heliograph
