#include "heliograph/generate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include "graph/generate/edges.hpp"
#include "graph/generate/labels.hpp"
#include "graph/shard.hpp"
#include "heliograph/error.hpp"
#include "heliograph/io.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/graphs.hpp"

namespace heliograph {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

GenerateOptions small(GraphModel model = GraphModel::block, bool multilabel = false) {
  GenerateOptions options;
  options.model = model;
  options.multilabel = multilabel;
  options.nodes = 2000;
  options.edges = 12000;
  options.feature_cols = 9;
  options.classes = 5;
  options.labels_per_node = 2;
  options.label_noise = 0;
  return options;
}

void expect_canonical(const Graph& graph) {
  ASSERT_EQ(graph.offsets.size(), at(graph.nodes) + 1);
  for (NodeId v = 0; v < graph.nodes; ++v) {
    for (auto i = graph.offsets[at(v)]; i < graph.offsets[at(v) + 1]; ++i) {
      const NodeId u = graph.neighbours[at(i)];
      ASSERT_TRUE(u >= 0 && u < graph.nodes && u != v);
      if (i > graph.offsets[at(v)]) {
        ASSERT_LT(graph.neighbours[at(i) - 1], u);
      }
    }
  }
  const Graph turned = transpose(graph);
  EXPECT_TRUE(std::equal(turned.neighbours.begin(), turned.neighbours.end(),
                         graph.neighbours.begin(), graph.neighbours.end()));
}

double homophily(const Dataset& dataset) {
  std::int64_t alike = 0;
  for (const auto& [u, v] : test::edges_of(dataset.graph)) {
    alike += dataset.labels.class_of[at(u)] == dataset.labels.class_of[at(v)] ? 1 : 0;
  }
  return static_cast<double>(alike) / static_cast<double>(dataset.graph.entries());
}

TEST(Generate, GivesTheEdgesAskedForInCanonicalForm) {
  for (const auto model : {GraphModel::block, GraphModel::rmat}) {
    const Dataset dataset = generate_dataset(small(model));
    expect_canonical(dataset.graph);
    EXPECT_FALSE(dataset.graph.directed);
    EXPECT_NEAR(static_cast<double>(dataset.graph.entries()), 24000, 48);
    EXPECT_EQ(dataset.features.dense.size(), 18000U);
    EXPECT_EQ(dataset.labels.class_of.size(), 2000U);
  }
}

TEST(Generate, MakesUpForDuplicatesInADenseGraph) {
  GenerateOptions options = small();
  options.nodes = 300;
  options.edges = 12000;  // of 44,850 pairs
  const Graph graph = generate_dataset(options).graph;
  expect_canonical(graph);
  EXPECT_NEAR(static_cast<double>(graph.entries()), 24000, 48);
}

TEST(Generate, FollowsHomophily) {
  for (const double wanted : {0.0, 0.3, 0.9}) {
    GenerateOptions options = small();
    options.homophily = wanted;
    // The deviation of a share over 12,000 edges is below 0.005. Duplicates lower the share a
    // little.
    EXPECT_NEAR(homophily(generate_dataset(options)), wanted, 0.03) << wanted;
  }
  // Label noise of 20 % keeps 64 % of the pairs that agreed, and a few more by chance.
  GenerateOptions options = small();
  options.homophily = 0.9;
  options.label_noise = 0.2;
  EXPECT_NEAR(homophily(generate_dataset(options)), 0.9 * 0.64 + 0.2 * 0.36, 0.04);
}

TEST(Generate, DegreeTailFollowsItsExponent) {
  const auto largest = [](double exponent) {
    GenerateOptions options = small();
    options.degree_exponent = exponent;
    const Graph graph = generate_dataset(options).graph;
    std::int64_t most = 0;
    for (NodeId v = 0; v < graph.nodes; ++v) most = std::max(most, graph.degree(v));
    return most;
  };
  const auto heavy = largest(2.2), light = largest(6);
  EXPECT_GT(heavy, 3 * light);
  EXPECT_GT(light, 12);  // the mean degree
}

TEST(Generate, FeaturesCarryTheClassAndTheNoise) {
  GenerateOptions options = small();
  options.feature_noise = 0;
  const Dataset exact = generate_dataset(options);
  options.feature_noise = 0.5;
  const Dataset noisy = generate_dataset(options);
  double sum = 0, squares = 0;
  std::vector<std::size_t> first(5, 2000);
  for (std::size_t v = 0; v < 2000; ++v) {
    auto& twin = first[at(exact.labels.class_of[v])];
    if (twin == 2000) twin = v;
    for (std::size_t j = 0; j < 9; ++j) {
      EXPECT_EQ(exact.features.dense[v * 9 + j], exact.features.dense[twin * 9 + j]);
      const double noise = noisy.features.dense[v * 9 + j] - exact.features.dense[v * 9 + j];
      sum += noise;
      squares += noise * noise;
    }
  }
  // Of 18,000 draws, the mean lies within 5 deviations and the deviation within 5 of its own.
  EXPECT_NEAR(sum / 18000, 0, 5 * 0.5 / std::sqrt(18000.0));
  EXPECT_NEAR(std::sqrt(squares / 18000), 0.5, 5 * 0.5 / std::sqrt(36000.0));
  EXPECT_NE(exact.features.dense[first[0] * 9], exact.features.dense[first[1] * 9]);
}

TEST(Generate, MultiLabelDrivesEdgesAndHasItsMean) {
  const Dataset dataset = generate_dataset(small(GraphModel::block, true));
  const auto& indicators = dataset.labels.indicators;
  ASSERT_EQ(indicators.size(), 10000U);
  std::int64_t total = 0;
  std::vector<std::int64_t> count(2000, 0);
  for (std::size_t v = 0; v < 2000; ++v) {
    for (std::size_t c = 0; c < 5; ++c) count[v] += indicators[v * 5 + c];
    EXPECT_GE(count[v], 1);
    EXPECT_TRUE(dataset.labels.has_label(static_cast<NodeId>(v)));
    total += count[v];
  }
  EXPECT_NEAR(static_cast<double>(total) / 2000, 2, 0.1);
  const auto common = [&](std::size_t u, std::size_t v) {
    int shared = 0;
    for (std::size_t c = 0; c < 5; ++c) shared += indicators[u * 5 + c] & indicators[v * 5 + c];
    return static_cast<double>(shared);
  };
  double joined = 0, others = 0;
  for (const auto& [u, v] : test::edges_of(dataset.graph)) joined += common(at(u), at(v));
  for (std::size_t v = 0; v < 2000; ++v) others += common(v, (v + 1) % 2000);
  EXPECT_GT(joined / static_cast<double>(dataset.graph.entries()), 1.4 * others / 2000);
}

TEST(Generate, RmatHasHubsAndItsClassesAreRunsOfTheMatrix) {
  GenerateOptions options = small(GraphModel::rmat);
  options.nodes = 2048;
  const Dataset dataset = generate_dataset(options);
  std::int64_t most = 0;
  for (NodeId v = 0; v < dataset.graph.nodes; ++v) most = std::max(most, dataset.graph.degree(v));
  EXPECT_GT(most, 150);
  EXPECT_GT(homophily(dataset), 0.22);  // 0.2 if edges did not depend on classes
  options.rmat_a = options.rmat_b = options.rmat_c = 0.25;
  const Dataset even = generate_dataset(options);
  EXPECT_LT(homophily(even), 0.22);
}

TEST(Generate, SplitHasExactShares) {
  GenerateOptions options = small();
  options.train_share = 8;
  options.validation_share = 2.5;
  const Dataset dataset = generate_dataset(options);
  ASSERT_EQ(dataset.splits.size(), 1U);
  const auto& role = dataset.splits[0].role;
  EXPECT_EQ(std::count(role.begin(), role.end(), Role::train), 160);
  EXPECT_EQ(std::count(role.begin(), role.end(), Role::validation), 50);
  EXPECT_EQ(std::count(role.begin(), role.end(), Role::test), 1790);
}

TEST(Generate, IsAFunctionOfItsOptionsOnly) {
  for (const bool multilabel : {false, true}) {
    GenerateOptions options = small(GraphModel::block, multilabel);
    const std::string hash = dataset_hash(generate_dataset(options));
    EXPECT_EQ(dataset_hash(generate_dataset(options)), hash);
    options.seed = 2;
    EXPECT_NE(dataset_hash(generate_dataset(options)), hash);
  }
}

TEST(Generate, GraphDoesNotDependOnThreads) {
  const GenerateOptions options = small();
  const LabelLists labels(options);
  ThreadPool one(1), three(3);
  const Graph a = draw_graph(options, labels, one);
  const Graph b = draw_graph(options, labels, three);
  EXPECT_EQ(test::edges_of(a), test::edges_of(b));
}

TEST(Generate, TinyAndSaturatedGraphs) {
  GenerateOptions options = small();
  options.nodes = 1;
  options.edges = 0;
  EXPECT_EQ(generate_dataset(options).graph.entries(), 0);
  options.model = GraphModel::rmat;
  EXPECT_EQ(generate_dataset(options).graph.entries(), 0);
  options.model = GraphModel::block;
  options.nodes = 6;
  options.edges = 15;  // all pairs, more than homophily 1 allows
  options.homophily = 1;
  const Graph graph = generate_dataset(options).graph;
  expect_canonical(graph);
  EXPECT_LT(graph.entries(), 30);
}

TEST(Generate, StreamsTheSameDataSetToDisk) {
  const test::TemporaryDirectory directory;
  const std::filesystem::path folder = directory / "generated";
  for (const bool multilabel : {false, true}) {
    GenerateOptions options = small(GraphModel::block, multilabel);
    options.label_noise = 0.1;
    std::vector<std::string> said;
    generate_to(options, folder, true,
                [&](LogLevel, std::string_view words) { said.emplace_back(words); });
    const Dataset streamed = load_dataset(folder);
    EXPECT_EQ(dataset_hash(streamed), dataset_hash(generate_dataset(options)));
    EXPECT_EQ(streamed.name, "generated");
    EXPECT_FALSE(said.empty());
    test::expect_error(ErrorCode::usage, folder.string(),
                       [&] { generate_to(options, folder, false); });
  }
}

TEST(Generate, RefusesOptionsOutOfRangeByName) {
  const auto refused = [](const std::string& name, auto&& change) {
    GenerateOptions options = small();
    change(options);
    test::expect_error(ErrorCode::usage, name, [&] { generate_dataset(options); });
  };
  refused("nodes 0", [](auto& o) { o.nodes = 0; });
  refused("edges -1", [](auto& o) { o.edges = -1; });
  refused("edges 4", [](auto& o) { o.nodes = 3, o.edges = 4; });
  refused("features 0", [](auto& o) { o.feature_cols = 0; });
  refused("classes", [](auto& o) { o.classes = 1; });
  refused("homophily", [](auto& o) { o.homophily = 1.5; });
  refused("homophily", [](auto& o) { o.homophily = std::nan(""); });
  refused("feature-noise", [](auto& o) { o.feature_noise = -1; });
  refused("label-noise", [](auto& o) { o.label_noise = 2; });
  refused("degree-exponent", [](auto& o) { o.degree_exponent = 2; });
  refused("labels-per-node", [](auto& o) { o.multilabel = true, o.labels_per_node = 6; });
  refused("rmat-a", [](auto& o) { o.rmat_a = 0.9; });
  refused("train-share", [](auto& o) { o.train_share = 90; });
  // With fewer, the graph could be written but not read again.
  refused("for training", [](auto& o) { o.train_share = 0; });
  refused("for training", [](auto& o) { o.nodes = 1, o.edges = 0, o.train_share = 40; });
  refused("classes", [](auto& o) { o.classes = 65537; });
  refused("feature-noise", [](auto& o) { o.feature_noise = 1e39; });
  GenerateOptions options = small();
  options.nodes = std::int64_t{1} << 31;
  test::expect_error(ErrorCode::resource, "nodes", [&] { generate_dataset(options); });
}

TEST(GeneratePreset, HasThePublishedShape) {
  const GenerateOptions reddit = generate_preset("reddit", 1);
  EXPECT_EQ(reddit.nodes, 232965);
  EXPECT_NEAR(2.0 * static_cast<double>(reddit.edges), 114.6e6, 0.1e6);  // counted both ways
  EXPECT_EQ(reddit.feature_cols, 602);
  EXPECT_EQ(reddit.classes, 41);
  EXPECT_FALSE(reddit.multilabel);
  const GenerateOptions products = generate_preset("products", 0.01);
  EXPECT_EQ(products.nodes, 24490);
  EXPECT_EQ(products.edges, 618591);
  EXPECT_EQ(products.train_share, 8);
  const GenerateOptions amazon = generate_preset("amazon", 0.1);
  EXPECT_TRUE(amazon.multilabel);
  EXPECT_EQ(amazon.classes, 107);
  EXPECT_NEAR(static_cast<double>(generate_preset("yelp", 2).edges), 13.95e6, 0.05e6);
}

TEST(GeneratePreset, MeanDegreeSurvivesDuplicates) {
  GenerateOptions options = generate_preset("products", 0.001);
  options.feature_cols = 1;
  const Graph graph = generate_dataset(options).graph;
  const double degree = static_cast<double>(graph.entries()) / static_cast<double>(graph.nodes);
  EXPECT_NEAR(degree, 2 * 61859140.0 / 2449029, 0.2);
}

TEST(GeneratePreset, RefusesUnknownNamesAndScales) {
  test::expect_error(ErrorCode::usage, "did you mean 'reddit'",
                     [] { generate_preset("redit", 1); });
  for (const double scale : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    test::expect_error(ErrorCode::usage, "scale", [&] { generate_preset("yelp", scale); });
  }
  test::expect_error(ErrorCode::resource, "nodes", [] { generate_preset("products", 1e4); });
}

}  // namespace
}  // namespace heliograph
