#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "graph/canonical.hpp"
#include "heliograph/dataset.hpp"

namespace heliograph {

/// The edges of a square coordinate matrix: entry (i, j) is the edge i -> j.
struct MarketEdges {
  std::int64_t nodes = 0;
  bool symmetric = false;
  std::vector<Edge> edges;  ///< As listed: one triangle of a symmetric matrix.
};

/// Reads MatrixMarket text: coordinate; pattern, real or integer; general or symmetric. Values
/// other than 1 are counted in `counts.weights_ignored`.
/// Throws Error(bad_input) that names file and line.
MarketEdges read_market_edges(const std::filesystem::path& file, ImportCounts& counts);

/// Reads a general matrix as features: coordinate (sparse; duplicates are summed) or array (dense).
Features read_market_features(const std::filesystem::path& file);

}  // namespace heliograph
