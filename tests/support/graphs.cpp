#include "support/graphs.hpp"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

namespace heliograph::test {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Own draws from the engine's bits: the standard distributions differ between libraries.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : engine_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  std::int64_t below(std::int64_t n) {
    return std::min(n - 1, static_cast<std::int64_t>(unit() * static_cast<double>(n)));
  }
  /// Zero mean, unit deviation: the sum of twelve uniform draws, less six.
  double bell() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += unit();
    return sum;
  }

 private:
  std::mt19937_64 engine_;
};

Features make_features(const std::vector<std::vector<std::int32_t>>& classes_of, int cols,
                       int classes, bool sparse, Draws& draws) {
  std::vector<double> means(at(classes) * at(cols));
  for (double& mean : means) mean = draws.bell();
  std::vector<float> dense, values;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> columns;
  for (const auto& chosen : classes_of) {
    for (int c = 0; c < cols; ++c) {
      double value = draws.bell();
      for (const std::int32_t k : chosen) value += means[at(k) * at(cols) + at(c)];
      if (!sparse) {
        dense.push_back(static_cast<float>(value));
      } else if (draws.unit() < 1.0 / 3) {
        columns.push_back(c);
        values.push_back(static_cast<float>(value));
      }
    }
    if (sparse) offsets.push_back(static_cast<std::int64_t>(columns.size()));
  }
  Features features;
  features.rows = static_cast<std::int64_t>(classes_of.size());
  features.cols = cols;
  features.sparse = sparse;
  if (sparse) {
    features.offsets = std::move(offsets);
    features.columns = std::move(columns);
    features.values = std::move(values);
  } else {
    features.dense = std::move(dense);
  }
  return features;
}

Labels make_labels(const std::vector<std::vector<std::int32_t>>& classes_of, int classes,
                   bool multilabel, const std::vector<bool>& labelled) {
  Labels labels;
  labels.task = multilabel ? Task::multilabel : Task::multiclass;
  labels.classes = classes;
  std::vector<std::int32_t> class_of;
  std::vector<std::uint8_t> indicators(multilabel ? classes_of.size() * at(classes) : 0);
  std::vector<std::uint8_t> known;
  for (std::size_t v = 0; v < classes_of.size(); ++v) {
    if (!multilabel) {
      class_of.push_back(labelled[v] ? classes_of[v][0] : -1);
      continue;
    }
    known.push_back(labelled[v] ? 1 : 0);
    if (!labelled[v]) continue;
    for (const std::int32_t k : classes_of[v]) indicators[v * at(classes) + at(k)] = 1;
  }
  labels.class_of = std::move(class_of);
  labels.indicators = std::move(indicators);
  labels.labelled = std::move(known);
  return labels;
}

}  // namespace

Graph graph_from_edges(std::int64_t nodes, const std::vector<Edge>& edges, bool directed) {
  std::vector<std::vector<NodeId>> rows(at(nodes));
  for (const auto& [u, v] : edges) {
    if (u == v) continue;
    rows[at(v)].push_back(u);
    if (!directed) rows[at(u)].push_back(v);
  }
  std::vector<std::int64_t> offsets{0};
  std::vector<NodeId> neighbours;
  for (auto& row : rows) {
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
    neighbours.insert(neighbours.end(), row.begin(), row.end());
    offsets.push_back(static_cast<std::int64_t>(neighbours.size()));
  }
  return {nodes, directed, std::move(offsets), std::move(neighbours)};
}

Graph path_graph(std::int64_t nodes, bool directed) {
  std::vector<Edge> edges;
  for (NodeId v = 1; v < nodes; ++v) edges.emplace_back(v - 1, v);
  return graph_from_edges(nodes, edges, directed);
}

Graph star_graph(std::int64_t nodes, bool directed) {
  std::vector<Edge> edges;
  for (NodeId v = 1; v < nodes; ++v) edges.emplace_back(0, v);
  return graph_from_edges(nodes, edges, directed);
}

Graph random_graph(std::int64_t nodes, double probability, std::uint64_t seed, bool directed) {
  Draws draws(seed);
  std::vector<Edge> edges;
  for (NodeId u = 0; u < nodes; ++u) {
    for (NodeId v = directed ? 0 : u + 1; v < nodes; ++v) {
      if (u != v && draws.unit() < probability) edges.emplace_back(u, v);
    }
  }
  return graph_from_edges(nodes, edges, directed);
}

std::vector<Edge> edges_of(const Graph& graph) {
  std::vector<Edge> edges;
  for (NodeId v = 0; v < graph.nodes; ++v) {
    for (std::int64_t i = graph.offsets[at(v)]; i < graph.offsets[at(v) + 1]; ++i) {
      edges.emplace_back(graph.neighbours[at(i)], v);
    }
  }
  return edges;
}

Partition round_robin_partition(std::int64_t nodes, int parts) {
  Partition partition{parts, std::vector<std::int32_t>(at(nodes))};
  for (std::int64_t v = 0; v < nodes; ++v) {
    partition.owner[at(v)] = static_cast<std::int32_t>(v % parts);
  }
  return partition;
}

Partition scattered_partition(std::int64_t nodes, int parts, std::uint64_t seed) {
  Draws draws(seed);
  Partition partition{parts, std::vector<std::int32_t>(at(nodes))};
  for (auto& owner : partition.owner) owner = static_cast<std::int32_t>(draws.below(parts));
  return partition;
}

Dataset make_small_dataset(int nodes, int cols, int classes, std::uint64_t seed, bool multilabel,
                           bool sparse, bool directed) {
  Draws draws(seed);
  std::vector<std::vector<std::int32_t>> classes_of(at(nodes));
  std::vector<std::vector<NodeId>> members(at(classes));
  std::vector<bool> labelled(at(nodes));
  std::vector<Role> role(at(nodes), Role::none);
  for (int v = 0; v < nodes; ++v) {
    // The first nodes give every class a member; the rest are drawn.
    const auto first = static_cast<std::int32_t>(v < classes ? v : draws.below(classes));
    classes_of[at(v)].push_back(first);
    if (multilabel && draws.unit() < 0.3) {
      const auto second = static_cast<std::int32_t>(draws.below(classes));
      if (second != first) classes_of[at(v)].push_back(second);
    }
    members[at(first)].push_back(v);
    labelled[at(v)] = v % 17 != 16;
    if (!labelled[at(v)]) continue;
    role[at(v)] = v % 5 < 3 ? Role::train : v % 5 == 3 ? Role::validation : Role::test;
  }

  std::vector<Edge> edges;
  const int joined = nodes - 1;  // the last node stays isolated
  for (int i = 0; joined > 1 && i < 2 * joined; ++i) {
    const auto u = static_cast<NodeId>(draws.below(joined));
    const auto& alike = members[at(classes_of[at(u)][0])];
    const auto v = draws.unit() < 0.7
                       ? alike[at(draws.below(static_cast<std::int64_t>(alike.size())))]
                       : static_cast<NodeId>(draws.below(joined));
    if (v < joined) edges.emplace_back(u, v);
  }

  Dataset dataset;
  dataset.name = "small";
  dataset.graph = graph_from_edges(nodes, edges, directed);
  dataset.features = make_features(classes_of, cols, classes, sparse, draws);
  dataset.labels = make_labels(classes_of, classes, multilabel, labelled);
  dataset.splits.push_back(Split{std::move(role)});
  return dataset;
}

float weight_of(NodeId source, NodeId target, bool directed) {
  if (!directed && source > target) std::swap(source, target);
  const auto key = (static_cast<std::uint64_t>(source) << 32U) | static_cast<std::uint64_t>(target);
  Draws draws(key);
  draws.unit();
  return draws.unit() < 0.125 ? 0.0F : static_cast<float>(0.1 + 1.9 * draws.unit());
}

Dataset with_weights(Dataset data) {
  std::vector<float> weights;
  for (const auto& [u, v] : edges_of(data.graph)) {
    weights.push_back(weight_of(u, v, data.graph.directed));
  }
  data.graph.edge_weights = std::move(weights);
  return data;
}

Dataset with_numbers(Dataset data) {
  std::vector<float> values;
  for (std::size_t v = 0; v < data.labels.class_of.size(); ++v) {
    const std::int32_t c = data.labels.class_of[v];
    const float feature = data.features.dense[v * at(data.features.cols)];
    values.push_back(c < 0 ? std::numeric_limits<float>::quiet_NaN()
                           : 1000 + 60 * static_cast<float>(c) + 10 * feature);
  }
  data.labels = Labels();
  data.labels.task = Task::regression;
  data.labels.classes = 1;
  data.labels.values = std::move(values);
  return data;
}

}  // namespace heliograph::test
