#pragma once

#include <cstdint>
#include <vector>

#include "graph/canonical.hpp"
#include "heliograph/dataset.hpp"

namespace heliograph {

/// Five nodes, one of them isolated and one unlabelled; dense features, two splits.
inline Dataset small_dense() {
  Dataset dataset;
  dataset.name = "small";
  ImportCounts counts;
  dataset.graph = build_graph(5, {{{0, 1}, {1, 2}, {2, 3}, {3, 0}}}, false, counts);
  dataset.features = {5,  2,  false, std::vector<float>{1, 2, 3, -4, 0, 0, 0.5F, 6, 7, 8},
                      {}, {}, {}};
  dataset.labels.classes = 2;
  dataset.labels.class_of = std::vector<std::int32_t>{0, 1, 1, 0, -1};
  dataset.class_names = {"tree", "gr\u00fcn"};
  using enum Role;
  dataset.splits.push_back({std::vector<Role>{train, train, validation, test, none}});
  dataset.splits.push_back({std::vector<Role>{train, validation, test, test, none}});
  return dataset;
}

/// Three nodes of a directed graph; sparse features, several labels a node, one split.
inline Dataset small_sparse() {
  Dataset dataset;
  dataset.name = "small-sparse";
  ImportCounts counts;
  dataset.graph = build_graph(3, {{{0, 1}, {1, 2}, {0, 2}}}, true, counts);
  Features& features = dataset.features;
  features.rows = 3;
  features.cols = 4;
  features.sparse = true;
  features.offsets = std::vector<std::int64_t>{0, 2, 2, 3};
  features.columns = std::vector<std::int32_t>{0, 3, 1};
  features.values = std::vector<float>{1, -2, 0.5F};
  dataset.labels.task = Task::multilabel;
  dataset.labels.classes = 2;
  dataset.labels.indicators = std::vector<std::uint8_t>{1, 0, 0, 0, 1, 1};
  dataset.labels.labelled = std::vector<std::uint8_t>{1, 0, 1};
  dataset.splits.push_back({std::vector<Role>{Role::train, Role::none, Role::test}});
  return dataset;
}

template <class T>
std::vector<T> list(const Array<T>& array) {
  return {array.begin(), array.end()};
}

}  // namespace heliograph
