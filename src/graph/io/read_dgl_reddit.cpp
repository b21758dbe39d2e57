#include <array>
#include <utility>
#include <vector>

#include "graph/io/npz.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/published.hpp"
#include "graph/io/readers.hpp"
#include "graph/io/scipy_graph.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace fs = std::filesystem;

namespace {

constexpr const char* kGraph = "reddit_graph.npz";
constexpr const char* kData = "reddit_data.npz";

/// Nodes of type 1 are to train on, of type 2 to validate and of type 3 to test.
SplitArrays lists_of_types(const NpyArray& types, std::int64_t nodes) {
  if (types.kind == 'U' || types.kind == 'S' || types.kind == 'O') {
    refuse(types.name,
           "has dtype '{}', but types of nodes are the numbers 1 (training), 2 (validation) and 3 "
           "(test)",
           types.dtype);
  }
  const std::vector<std::int32_t> values = to_int32(types);
  if (static_cast<std::int64_t>(values.size()) != nodes) {
    refuse(types.name, "has {} values for {} nodes", values.size(), nodes);
  }
  std::array<std::vector<std::int64_t>, 3> lists;
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (values[v] < 1 || values[v] > 3) {
      refuse(types.name, "node {} has the type {}, which is not 1 (training), 2 or 3", v,
             values[v]);
    }
    lists[static_cast<std::size_t>(values[v] - 1)].push_back(static_cast<std::int64_t>(v));
  }
  const auto list = [&](std::size_t i) {
    const auto count = static_cast<std::int64_t>(lists[i].size());
    return as_array(fmt::format("{}: type {}", types.name, i + 1), std::move(lists[i]), {count});
  };
  return {list(0), list(1), list(2)};
}

}  // namespace

bool is_dgl_reddit(const fs::path& path) { return fs::exists(path / kGraph); }

Dataset read_dgl_reddit(const fs::path& directory, const ImportOptions& options,
                        ImportCounts& counts) {
  const NpzArchive data(directory / kData);
  Dataset dataset;
  dataset.features = dense_features(data.read("feature"));
  const NpzArchive adjacency(directory / kGraph);
  const NpyArray labels = data.read("label");
  const std::int64_t nodes = agree_on_nodes({rows_of_scipy_graph(adjacency),
                                             rows_of_labels(labels),
                                             {fmt::format("{}: member feature", data.where()),
                                              dataset.features.rows, dataset.features.cols}});
  dataset.graph = read_scipy_graph(adjacency, nodes, options, counts);
  dataset.labels = make_labels(labels, nodes, options.regression);
  if (may_have_splits(options, dataset.labels)) {
    dataset.splits = split_from_indices(lists_of_types(data.read("node_types"), nodes),
                                        dataset.labels, nodes, options.log);
  }
  compare_with_published(InputFormat::dgl_reddit, counts, options);
  return dataset;
}

}  // namespace heliograph
