#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "heliograph/dataset.hpp"
#include "heliograph/log.hpp"

namespace heliograph {

enum class GraphModel : std::uint8_t {
  block,  ///< Degree-corrected stochastic block model (Karrer and Newman, 2011, equation 15).
  /// R-MAT (Chakrabarti, Zhan and Faloutsos, 2004). A class is a range of rows of the recursive
  /// matrix, so edges are only weakly homophilous and `homophily` has no effect.
  rmat,
};

struct GenerateOptions {
  std::string name = "generated";
  GraphModel model = GraphModel::block;
  std::int64_t nodes = 10000;
  /// About how many undirected edges the graph gets. Duplicates are drawn again; there are fewer
  /// edges if the model has too few pairs of nodes to draw.
  std::int64_t edges = 100000;
  std::int64_t feature_cols = 64;
  std::int32_t classes = 10;
  bool multilabel = false;
  /// Block model: the share of edges drawn within a class, before label noise; other edges join two
  /// classes. Multi-label: the share drawn through a common label; other edges join any two nodes.
  /// Most duplicates are within a class and are drawn again, so dense graphs end up below it.
  double homophily = 0.7;
  double feature_noise = 1.5;  ///< Standard deviation in each column. Class means are random, with
                               ///< an expected squared length of 1.
  /// Block model: the exponent of the degrees' Pareto tail, above 2. Larger exponents give more
  /// even degrees.
  double degree_exponent = 2.5;
  /// The share of nodes that get another node's labels after edges and features are drawn. No model
  /// can learn these labels.
  double label_noise = 0.05;
  double labels_per_node = 3.0;                        ///< Multi-label: the mean number of labels.
  double rmat_a = 0.57, rmat_b = 0.19, rmat_c = 0.19;  ///< R-MAT: the quadrants' probabilities.
  /// Per cent of the nodes for training and validation; the others are for testing.
  double train_share = 60, validation_share = 20;
  std::uint64_t seed = 1;
};

/// Options with the shape of a published data set: nodes and undirected edges (times `scale`, and
/// at most an eighth of all pairs), feature columns, classes, and shares of training, validation
/// and test nodes in per cent.
///   reddit      232,965    57,307,946   602    41               66/10/24
///   products  2,449,029    61,859,140   100    47                8/2/90
///   yelp        716,847     6,977,409   300   100 (multi-label) 75/10/15
///   amazon    1,569,960   132,169,734   200   107 (multi-label) 85/5/10
/// Homophily, noise, labels per node and the degree exponent are choices of this project.
/// Throws Error: usage (an unknown name, with the nearest known one, or scale <= 0), resource (too
/// many nodes).
GenerateOptions generate_preset(const std::string& name, double scale);

/// Generates a data set in memory. The result depends only on the options, not on threads.
/// Throws Error: usage (names an option that is out of range), resource (2^31 or more nodes).
Dataset generate_dataset(const GenerateOptions& options);

/// About how many bytes of memory `generate_to` takes for the graph and one label a node; features
/// are written as they are drawn. Throws as generate_dataset does.
std::int64_t generation_bytes(const GenerateOptions& options);

/// What a generated data set holds.
struct GeneratedCounts {
  std::int64_t edges = 0;  ///< Undirected edges, each once.
  std::int64_t training_nodes = 0, validation_nodes = 0, test_nodes = 0;
};

/// Generates the data set of `generate_dataset` as a native directory and streams its arrays to
/// disk. Throws as generate_dataset and save_native do.
GeneratedCounts generate_to(const GenerateOptions& options, const std::filesystem::path& directory,
                            bool overwrite, const LogCallback& log = {});

}  // namespace heliograph
