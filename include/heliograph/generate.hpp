#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "heliograph/dataset.hpp"
#include "heliograph/log.hpp"

namespace heliograph {

enum class GraphModel : std::uint8_t {
  block,  ///< Degree-corrected stochastic block model: Karrer and Newman, 2011, eq. 15.
  rmat,   ///< R-MAT: Chakrabarti, Zhan and Faloutsos, 2004.
};

struct GenerateOptions {
  GraphModel model = GraphModel::block;
  std::int64_t nodes = 10000;
  std::int64_t edges = 100000;  ///< Undirected edges drawn, before duplicates are dropped.
  std::int64_t feature_cols = 64;
  std::int32_t classes = 10;
  bool multilabel = false;
  double homophily = 0.7;        ///< Share of edges drawn within a class.
  double feature_noise = 1.0;    ///< Standard deviation around the class mean.
  double degree_exponent = 2.5;  ///< Tail of the degree distribution; larger is more even.
  double labels_per_node = 3.0;  ///< Multi-label only: mean number of labels.
  double rmat_a = 0.57, rmat_b = 0.19, rmat_c = 0.19;
  double train_share = 60, validation_share = 20;  ///< Per cent; the rest is for testing.
  std::uint64_t seed = 1;
};

/// Published shapes: "reddit", "products", "yelp", "amazon" (../docs/formats.md lists them), with
/// nodes and edges times `scale`, features and classes as published.
/// Throws Error(usage) for an unknown name (with the nearest known one) or scale <= 0.
GenerateOptions generate_preset(const std::string& name, double scale);

/// In memory. Deterministic for the same options, whatever the number of threads.
Dataset generate_dataset(const GenerateOptions& options);

/// Straight to a native directory, arrays streamed to disk: 100 million edges fit in 24 GiB.
void generate_to(const GenerateOptions& options, const std::filesystem::path& directory,
                 bool overwrite, const LogCallback& log = {});

}  // namespace heliograph
