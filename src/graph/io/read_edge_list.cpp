#include <algorithm>
#include <utility>
#include <vector>

#include "core/throw_error.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/readers.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

fs::path edge_file_of(const fs::path& path) {
  if (!fs::is_directory(path)) return path;
  const bool csv = fs::exists(path / "edges.csv");
  const bool tsv = fs::exists(path / "edges.tsv");
  if (csv == tsv) {
    throw_error(
        ErrorCode::bad_input, "{} holds {}", path.string(),
        csv ? "edges.csv and edges.tsv; keep one of them" : "neither edges.csv nor edges.tsv");
  }
  return path / (csv ? "edges.csv" : "edges.tsv");
}

}  // namespace

bool is_edge_list(const fs::path& path) {
  if (fs::is_directory(path))
    return fs::exists(path / "edges.csv") || fs::exists(path / "edges.tsv");
  return path.extension() == ".csv" || path.extension() == ".tsv";
}

Dataset read_edge_list(const fs::path& path, const ImportOptions& options, ImportCounts& counts) {
  const fs::path file = edge_file_of(path);
  if (options.index_base != 0 && options.index_base != 1) {
    throw_error(ErrorCode::usage,
                "{} does not say whether its nodes are numbered from 0 or from 1: use "
                "--index-base 0|1",
                file.string());
  }
  const fs::path directory = file.parent_path();
  const FolderArrays arrays(directory);
  Dataset dataset;
  dataset.features = read_side_features(directory, arrays);
  std::vector<RowCount> rows{rows_of_side_features(directory, arrays, dataset.features)};
  if (const auto labels = arrays.find(kLabelNames)) {
    rows.insert(rows.begin(), rows_of_labels(*labels));
  }
  const RowCount most = std::ranges::max(rows, {}, &RowCount::rows);
  EdgeList list = read_edge_file(file, options.index_base, most, options);
  NodeId last = -1;
  for (const auto& [source, target] : list.edges) last = std::max({last, source, target});
  dataset.graph = build_graph(agree_on_nodes(rows, last), std::move(list), options.keep_direction,
                              counts, file.string());
  read_targets(arrays, options, dataset);
  return dataset;
}

}  // namespace heliograph
