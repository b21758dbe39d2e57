#include <utility>

#include "core/throw_error.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/readers.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

fs::path graph_file_of(const fs::path& path) {
  if (!fs::is_directory(path)) return path;
  if (fs::exists(path / "graph.mtx")) return path / "graph.mtx";
  fs::path found;
  for (const auto& entry : fs::directory_iterator(path)) {
    const fs::path& file = entry.path();
    if (file.extension() != ".mtx" || file.filename() == "features.mtx") continue;
    if (!found.empty()) {
      throw_error(ErrorCode::bad_input,
                  "{} holds several .mtx files; rename the one with the graph to graph.mtx",
                  path.string());
    }
    found = file;
  }
  if (found.empty()) throw_error(ErrorCode::bad_input, "{} holds no .mtx graph", path.string());
  return found;
}

}  // namespace

bool is_matrix_market(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return path.extension() == ".mtx";
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() == ".mtx" && entry.path().filename() != "features.mtx") {
      return true;
    }
  }
  return false;
}

Dataset read_matrix_market(const fs::path& path, const ImportOptions& options,
                           ImportCounts& counts) {
  const fs::path file = graph_file_of(path);
  const fs::path directory = file.parent_path();
  const FolderArrays arrays(directory);
  MarketEdges market = read_market_edges(file, options);
  check_claimed_nodes(file, market.nodes, options);
  Dataset dataset;
  // A symmetric matrix has no direction to keep.
  const bool directed = options.keep_direction && !market.symmetric;
  dataset.graph =
      build_graph(market.nodes, std::move(market.list), directed, counts, file.string());
  dataset.features = read_side_features(directory, arrays);
  agree_on_nodes(
      {{file.string(), market.nodes, 0},
       {(directory / "features").string(), dataset.features.rows, dataset.features.cols}});
  read_targets(arrays, options, dataset);
  return dataset;
}

}  // namespace heliograph
