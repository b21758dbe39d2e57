#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "heliograph/dataset.hpp"
#include "heliograph/log.hpp"

namespace heliograph {

enum class GraphModel : std::uint8_t {
  block,  ///< Degree-corrected stochastic block model: Karrer and Newman, 2011, eq. 15.
  /// R-MAT: Chakrabarti, Zhan and Faloutsos, 2004. Classes are runs of the recursive matrix, so
  /// its edges join them by their own measure (weakly), not by `homophily`.
  rmat,
};

struct GenerateOptions {
  std::string name = "generated";
  GraphModel model = GraphModel::block;
  std::int64_t nodes = 10000;
  /// Undirected edges. Duplicates are drawn again, so the graph holds these many within 0.1 per
  /// cent, unless the model has too few pairs of the kind that it draws (then fewer).
  std::int64_t edges = 100000;
  std::int64_t feature_cols = 64;
  std::int32_t classes = 10;
  bool multilabel = false;
  /// Block model: share of edges drawn within a class, before label noise; the others join
  /// different classes (multi-label: drawn through a common label; the others join any two nodes).
  double homophily = 0.7;
  double feature_noise = 1.5;  ///< Deviation in each column; class means have length 1.
  /// Block model: exponent of the degrees' Pareto tail, above 2; larger is more even.
  double degree_exponent = 2.5;
  /// Share of nodes that are given another node's labels once edges and features are drawn: what
  /// no model can learn.
  double label_noise = 0.05;
  double labels_per_node = 3.0;  ///< Multi-label only: mean number of labels.
  double rmat_a = 0.57, rmat_b = 0.19, rmat_c = 0.19;
  double train_share = 60, validation_share = 20;  ///< Per cent; the rest is for testing.
  std::uint64_t seed = 1;
};

/// Shapes of published data sets: nodes and undirected edges (times `scale`; at most an eighth of
/// all pairs), feature columns, classes, split train/validation/test in per cent.
///   reddit      232,965    57,307,946   602    41               66/10/24
///   products  2,449,029    61,859,140   100    47                8/2/90
///   yelp        716,847     6,977,409   300   100 (multi-label) 75/10/15
///   amazon    1,569,960   132,169,734   200   107 (multi-label) 85/5/10
/// Homophily, noise, labels per node and degree tail are this project's own choice.
/// Throws Error(usage) for an unknown name (with the nearest known one) or scale <= 0.
GenerateOptions generate_preset(const std::string& name, double scale);

/// In memory. Deterministic for the same options, whatever the number of threads.
/// Throws Error: usage (an option out of its range, by name), resource (2^31 nodes and more).
Dataset generate_dataset(const GenerateOptions& options);

/// Straight to a native directory, arrays streamed to disk: 100 million edges fit in 24 GiB.
/// The same data set as generate_dataset. Throws what generate_dataset and save_native throw.
void generate_to(const GenerateOptions& options, const std::filesystem::path& directory,
                 bool overwrite, const LogCallback& log = {});

}  // namespace heliograph
