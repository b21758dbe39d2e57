#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"

namespace heliograph::test {

/// A ring of `nodes` nodes with one split. Features show to which of two classes a node belongs.
inline Dataset ring(NodeId nodes) {
  Dataset dataset;
  dataset.name = "ring";
  std::vector<std::int64_t> offsets{0};
  std::vector<NodeId> neighbours;
  std::vector<float> features;
  std::vector<std::int32_t> classes;
  std::vector<Role> roles;
  for (NodeId v = 0; v < nodes; ++v) {
    const NodeId before = (v + nodes - 1) % nodes, after = (v + 1) % nodes;
    neighbours.push_back(std::min(before, after));
    neighbours.push_back(std::max(before, after));
    offsets.push_back(static_cast<std::int64_t>(neighbours.size()));
    const std::int32_t label = v < nodes / 2 ? 0 : 1;
    classes.push_back(label);
    features.push_back(label == 0 ? 1.0F : -1.0F);
    features.push_back(static_cast<float>(v % 7) / 7.0F);
    roles.push_back(v % 4 < 2 ? Role::train : v % 4 == 2 ? Role::validation : Role::test);
  }
  dataset.graph.nodes = nodes;
  dataset.graph.offsets = offsets;
  dataset.graph.neighbours = neighbours;
  dataset.features.rows = nodes;
  dataset.features.cols = 2;
  dataset.features.dense = features;
  dataset.labels.classes = 2;
  dataset.labels.class_of = classes;
  dataset.splits.push_back({roles});
  return dataset;
}

/// Writes `ring(nodes)` as a native graph and returns its path.
inline std::string save_ring(const std::filesystem::path& path, NodeId nodes) {
  save_native(ring(nodes), path);
  return path.string();
}

/// Arguments of a small, quick training run on `data`, of which `more` replaces those that it has,
/// and `more`.
inline std::vector<std::string> train_arguments(const std::string& data, int epochs,
                                                const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"train"};
  const std::pair<const char*, std::string> defaults[] = {{"--data", data},
                                                          {"--layers", "2"},
                                                          {"--hidden", "8"},
                                                          {"--parts", "2"},
                                                          {"--epochs", std::to_string(epochs)},
                                                          {"--threads-per-rank", "1"}};
  for (const auto& [flag, value] : defaults) {
    if (std::ranges::find(more, flag) == more.end()) words.insert(words.end(), {flag, value});
  }
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace heliograph::test
