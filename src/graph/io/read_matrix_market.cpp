#include <utility>

#include "graph/io/readers.hpp"

namespace heliograph {
namespace fs = std::filesystem;

bool is_matrix_market(const fs::path& path) { return has_graph_file(path, "mtx"); }

Dataset read_matrix_market(const fs::path& path, const ImportOptions& options,
                           ImportCounts& counts) {
  const fs::path file = graph_file_of(path, "mtx");
  MarketEdges market = read_market_edges(file, options);
  check_claimed_nodes(file, market.nodes, options);
  Dataset dataset;
  // A symmetric matrix has no direction to keep.
  const bool directed = options.keep_direction && !market.symmetric;
  dataset.graph =
      build_graph(market.nodes, std::move(market.list), directed, counts, file.string());
  read_sides(file, options, dataset);
  return dataset;
}

}  // namespace heliograph
