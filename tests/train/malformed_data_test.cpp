#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"
#include "heliograph/shards.hpp"
#include "heliograph/train.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"
#include "support/runs.hpp"

namespace heliograph {
namespace {

template <class T>
std::vector<T> values_of(const Array<T>& array) {
  return {array.begin(), array.end()};
}

/// An array with one value changed.
template <class T>
Array<T> with(const Array<T>& array, std::size_t i, T value) {
  std::vector<T> values = values_of(array);
  values.at(i) = value;
  return values;
}

template <class T>
Array<T> shorter(const Array<T>& array) {
  std::vector<T> values = values_of(array);
  values.pop_back();
  return values;
}

struct Fault {
  const char* name;
  std::string sentence;  ///< What the error must say.
  std::function<void(Dataset&)> make;
  bool multilabel = false, sparse = false, directed = false;
};

std::vector<Fault> faults() {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  // Rows of the path 0 - 1 - 2 - 3.
  const std::vector<std::int64_t> path_offsets{0, 1, 3, 5, 6};
  const auto rows = [path_offsets](std::vector<NodeId> neighbours) {
    return [=](Dataset& d) { d.graph = {4, false, path_offsets, neighbours}; };
  };
  // Weights of the path 0 - 1 - 2 - ..., of which those after the given ones are 1.
  const auto weights = [](std::vector<float> values, std::size_t count = 78) {
    values.resize(count, 1);
    return [values](Dataset& d) {
      d.graph = test::path_graph(40);
      d.graph.edge_weights = values;
    };
  };
  return {
      {"large_label", "label of node 7 is 100000000",
       [](Dataset& d) { d.labels.class_of = with(d.labels.class_of, 7, 100'000'000); }},
      {"negative_label", "label of node 7 is -2",
       [](Dataset& d) { d.labels.class_of = with(d.labels.class_of, 7, -2); }},
      {"no_classes", "0 classes", [](Dataset& d) { d.labels.classes = 0; }},
      {"short_features", "features holds 5 values, not 480",
       [](Dataset& d) { d.features.dense = std::vector<float>(5, 1.0F); }},
      {"feature_rows", "39 feature rows for 40 nodes", [](Dataset& d) { d.features.rows = 39; }},
      {"nan_feature", "feature of node 1, column 2 is nan",
       [](Dataset& d) { d.features.dense = with(d.features.dense, 14, nan); }},
      {"short_classes", "class_of holds 39 values, not 40",
       [](Dataset& d) { d.labels.class_of = shorter(d.labels.class_of); }},
      {"no_nodes", "no nodes", [](Dataset& d) { d = Dataset(); }},
      {"neighbour_beyond", "neighbours of row 3 holds 4", rows({1, 0, 2, 1, 3, 4})},
      {"neighbour_below", "neighbours of row 0 holds -1", rows({-1, 0, 2, 1, 3, 2})},
      {"unsorted_row", "neighbours of row 1 does not ascend", rows({1, 2, 0, 1, 3, 2})},
      {"duplicate", "neighbours of row 2 does not ascend", rows({1, 0, 2, 3, 3, 2})},
      {"self_loop", "node 1 is its own neighbour", rows({1, 1, 2, 1, 3, 2})},
      {"asymmetric", "only one of nodes",
       [](Dataset& d) {
         d.graph = test::path_graph(40);
         d.graph.neighbours = with(d.graph.neighbours, 0, 2);
       }},
      {"asymmetric_in_a_later_row", "only one of nodes 0 and 2 lists",
       [](Dataset& d) {
         d.graph.nodes = 3;
         d.graph.offsets = Array<std::int64_t>({0, 0, 1, 3});
         d.graph.neighbours = Array<NodeId>({2, 0, 1});
         d.features.rows = 3;
         d.features.dense = std::vector<float>(static_cast<std::size_t>(3 * d.features.cols));
         d.labels.class_of = Array<std::int32_t>({0, 1, 0});
         d.splits.clear();
       }},
      {"nan_weight", "the weight of the edge 2 -> 1 is nan", weights({1, 1, nan})},
      {"infinite_weight", "the weight of the edge 0 -> 1 is -inf",
       weights({1, -std::numeric_limits<float>::infinity()})},
      {"subnormal_weight",
       "the weight of the edge 2 -> 1 is 1e-40, which is neither 0 nor a normal",
       weights({1, 1, 1e-40F})},
      {"asymmetric_weights", "the edge 0 - 1 has the weights 1 and 2", weights({1, 2})},
      {"short_weights", "edge_weights holds 77 values, not 78", weights({}, 77)},
      {"falling_offsets", "offsets falls at row 1",
       [](Dataset& d) { d.graph.offsets = with(d.graph.offsets, 2, std::int64_t{0}); }},
      {"large_offsets", "offsets",
       [](Dataset& d) { d.graph.offsets = with(d.graph.offsets, 40, std::int64_t{1} << 40); }},
      {"short_offsets", "offsets holds 40 values, not 41",
       [](Dataset& d) { d.graph.offsets = shorter(d.graph.offsets); }},
      {"short_split", "split 0 holds 39 values, not 40",
       [](Dataset& d) { d.splits[0].role = shorter(d.splits[0].role); }},
      {"unknown_role", "node 3 has the unknown role 9",
       [](Dataset& d) { d.splits[0].role = with(d.splits[0].role, 3, static_cast<Role>(9)); }},
      {"role_without_label", "node 16 has a role but no label",
       [](Dataset& d) { d.splits[0].role = with(d.splits[0].role, 16, Role::train); }},
      {"class_names", "1 class names for 3 classes", [](Dataset& d) { d.class_names = {"one"}; }},
      {"latin_1", "the name of class 1 is not UTF-8",
       [](Dataset& d) {
         d.class_names = {"a", "caf\xe9", "b"};
       }},
      {"indicator", "label [1, 2] is 7, which is neither 0 nor 1",
       [](Dataset& d) { d.labels.indicators = with(d.labels.indicators, 5, std::uint8_t{7}); },
       true},
      {"short_indicators", "indicators holds 119 values, not 120",
       [](Dataset& d) { d.labels.indicators = shorter(d.labels.indicators); }, true},
      {"short_labelled", "labelled holds 39 values, not 40",
       [](Dataset& d) { d.labels.labelled = shorter(d.labels.labelled); }, true},
      {"sparse_column", "feature_columns of row 0 holds 12",
       [](Dataset& d) { d.features.columns = with(d.features.columns, 0, 12); }, false, true},
      {"sparse_values", "feature_values holds",
       [](Dataset& d) { d.features.values = shorter(d.features.values); }, false, true},
      {"sparse_nan", "is nan",
       [](Dataset& d) { d.features.values = with(d.features.values, 0, nan); }, false, true},
      {"directed_neighbour", "which is not in [0, 40)",
       [](Dataset& d) { d.graph.neighbours = with(d.graph.neighbours, 0, 40); }, false, false,
       true},
  };
}

class MalformedData : public ::testing::TestWithParam<Fault> {};

TEST_P(MalformedData, IsRefusedByName) {
  const Fault& fault = GetParam();
  Dataset data =
      test::make_small_dataset(40, 12, 3, 1, fault.multilabel, fault.sparse, fault.directed);
  data.name = "mine";
  EXPECT_NO_THROW(validate(data));
  fault.make(data);
  TrainOptions options;
  options.epochs = 1;
  options.partition.parts = 2;
  options.partition.partitioner = Partitioner::contiguous;
  const auto refused = [&](const std::string& how, const std::function<void()>& use) {
    SCOPED_TRACE(how);
    test::expect_error(ErrorCode::bad_input, fault.sentence, use);
  };
  refused("validate", [&] { validate(data); });
  refused("train", [&] { train(data, options); });
  const test::TemporaryDirectory folder;
  refused("save_native", [&] { save_native(data, folder.path() / "graph"); });
  refused("write_shards", [&] {
    write_shards(data, test::round_robin_partition(40, 2), options, folder.path() / "shards");
  });
}

INSTANTIATE_TEST_SUITE_P(Faults, MalformedData, ::testing::ValuesIn(faults()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Train, RefusesNegativeWeightsWhereItDividesBySumsOfWeights) {
  Dataset data = test::make_small_dataset(40, 12, 3, 1);
  data.name = "mine";
  data.graph = test::path_graph(40);
  std::vector<float> weights(78, 1.0F);
  weights[2] = weights[3] = -0.25F;  // between nodes 1 and 2
  data.graph.edge_weights = weights;
  EXPECT_NO_THROW(validate(data));
  TrainOptions options;
  options.epochs = 1;
  for (const ModelKind kind : {ModelKind::gcn, ModelKind::sage, ModelKind::jknet, ModelKind::gcnii,
                               ModelKind::appnp, ModelKind::dagnn}) {
    options.model.kind = kind;
    test::expect_error(ErrorCode::bad_input,
                       "'mine': the edge 2 -> 1 has the weight -0.25, and model " +
                           test::name_of(kind) + " divides by sums of weights: take model gin",
                       [&] { train(data, options); });
  }
  options.model.kind = ModelKind::gin;
  EXPECT_NO_THROW(train(data, options));
}

TEST(Train, LogsTheSplitAndDoubtsAboutLabels) {
  Dataset data = test::with_weights(test::make_small_dataset(40, 12, 3, 1));
  std::vector<std::int32_t> class_of = values_of(data.labels.class_of);
  for (std::int32_t& c : class_of) c = c < 0 ? c : c + 1;
  data.labels.class_of = class_of;
  data.labels.classes = 4;
  TrainOptions options;
  options.epochs = 1;
  options.split = PerClassSplit{2, 5, 7};
  TrainCallbacks callbacks;
  std::string lines;
  callbacks.log = [&](LogLevel, std::string_view text) { lines.append(text).append("\n"); };
  test::expect_error(ErrorCode::usage, "class 0 of", [&] { train(data, options, callbacks); });
  options.split = RandomSplit{50, 25, 25};
  train(data, options, callbacks);
  EXPECT_NE(lines.find("no node has class 0"), std::string::npos) << lines;
  EXPECT_NE(lines.find("split random:50/25/25: 19 nodes to train on, 10 to validate, 9 to test"),
            std::string::npos)
      << lines;
  const auto [least, most] = std::ranges::minmax_element(data.graph.edge_weights);
  EXPECT_NE(lines.find(fmt::format("edge weights from {} to {}", *least, *most)), std::string::npos)
      << lines;
}

TEST(MakeGraph, DoesWhatImportDoes) {
  const std::vector<std::int64_t> sources{0, 1, 2, 2, 0, 3}, targets{1, 0, 1, 2, 1, 1};
  ImportCounts counts;
  const Graph graph = make_graph(5, sources, targets, false, &counts);
  EXPECT_EQ(values_of(graph.offsets), (std::vector<std::int64_t>{0, 1, 4, 5, 6, 6}));
  EXPECT_EQ(values_of(graph.neighbours), (std::vector<NodeId>{1, 0, 2, 3, 1, 1}));
  EXPECT_EQ(counts.edges_listed, 6);
  EXPECT_EQ(counts.self_loops, 1);
  EXPECT_EQ(counts.duplicates, 2);
  EXPECT_EQ(counts.isolated, 1);

  const std::vector<NodeId> narrow_sources(sources.begin(), sources.end());
  const std::vector<NodeId> narrow_targets(targets.begin(), targets.end());
  const Graph directed = make_graph(5, narrow_sources, narrow_targets, true);
  EXPECT_TRUE(directed.directed);
  EXPECT_EQ(values_of(directed.offsets), (std::vector<std::int64_t>{0, 1, 4, 4, 4, 4}));
  EXPECT_EQ(values_of(directed.neighbours), (std::vector<NodeId>{1, 0, 2, 3}));
}

TEST(MalformedData, IsRefusedByEveryFunctionThatReadsIt) {
  const Dataset whole = test::make_small_dataset(20, 4, 2, 1);
  const auto refused = [](const char* why, auto&& call) {
    test::expect_error(ErrorCode::bad_input, why, call);
  };
  Dataset data = whole;
  data.labels = {};
  for (const SplitChoice& split : {SplitChoice(RandomSplit{}), SplitChoice(PerClassSplit{})}) {
    refused("0 classes", [&] { make_split(data, split); });
  }
  data = whole;
  data.labels.class_of = std::vector<std::int32_t>(3, 0);
  refused("class_of", [&] { make_split(data, RandomSplit{}); });
  data.features.dense = std::vector<float>(3, 1.0F);
  refused("features", [&] { normalize_features(data.features, Normalization::row, {}); });
  refused("features", [&] { fit_features(data.features, {}); });
  const Partition partition = make_partition(whole.graph, test::small_options(2, 1).partition);
  data.graph.offsets = std::vector<std::int64_t>();
  refused("the graph", [&] { measure_partition(data.graph, partition); });
}

TEST(MalformedData, WeightsOfAnotherSizeAreRefused) {
  const Dataset data = test::make_small_dataset(20, 4, 2, 1);
  Model model = *train(data, test::small_options(1, 1)).model;
  model.tensors[0].values.resize(2);
  test::expect_error(ErrorCode::mismatch, "has 2 values", [&] { (void)model.predict(data); });
}

TEST(MakeGraph, CannotHaveFewerThanNoNodes) {
  Dataset data = test::make_small_dataset(20, 4, 2, 1);
  data.graph.nodes = -1;
  test::expect_error(ErrorCode::bad_input, "a graph cannot have -1 nodes", [&] { validate(data); });
}

TEST(MakeGraph, RefusesEdgesThatDoNotFit) {
  const std::vector<std::int64_t> zero{0}, two{2}, both{0, 1}, far{std::int64_t{1} << 32};
  test::expect_error(ErrorCode::bad_input, "edge 0 (0 -> 2)", [&] { make_graph(2, zero, two); });
  test::expect_error(ErrorCode::bad_input, "edge 0 (4294967296 -> 0)",
                     [&] { make_graph(2, far, zero); });
  test::expect_error(ErrorCode::bad_input, "2 sources and 1 target",
                     [&] { make_graph(2, both, zero); });
  test::expect_error(ErrorCode::resource, "2^31",
                     [&] { make_graph(std::int64_t{1} << 31, zero, zero); });
}

}  // namespace
}  // namespace heliograph
