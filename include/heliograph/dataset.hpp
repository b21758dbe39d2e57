#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "heliograph/array.hpp"

namespace heliograph {

/// A node's number in the user's own order. A graph has fewer than 2^31 nodes.
using NodeId = std::int32_t;

/// How the edges of a graph are read, as far as it changes what a model computes.
struct GraphKind {
  bool directed = false;
  bool weighted = false;  ///< Whether edges have weights other than 1.

  bool operator==(const GraphKind&) const = default;
};

/// A graph in compressed sparse rows: row v lists the in-neighbours u of v (edges u -> v).
/// Rows are ascending, without duplicates or self-loops; a model that needs self-loops adds them.
/// An undirected graph lists each edge in both rows, with the same weight.
struct Graph {
  std::int64_t nodes = 0;
  bool directed = false;
  Array<std::int64_t> offsets;  ///< Where each row begins in `neighbours`; nodes + 1 entries.
  Array<NodeId> neighbours;     ///< All rows, one after another; offsets[nodes] entries.
  /// The weight of the edge of each entry of `neighbours`, or empty if all weights are 1. Each is
  /// 0 or a normal number.
  Array<float> edge_weights = {};

  std::int64_t entries() const { return offsets.empty() ? 0 : offsets[offsets.size() - 1]; }
  GraphKind kind() const { return {directed, !edge_weights.empty()}; }
  std::int64_t degree(NodeId v) const {
    const auto i = static_cast<std::size_t>(v);
    return offsets[i + 1] - offsets[i];
  }
};

/// Node features, nodes x cols: dense (row-major, no padding) or sparse (CSR).
struct Features {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  bool sparse = false;
  Array<float> dense;           ///< rows x cols values; empty if sparse.
  Array<std::int64_t> offsets;  ///< Where each sparse row begins; rows + 1 entries; empty if dense.
  Array<std::int32_t> columns;  ///< The columns of sparse entries, ascending in each row.
  Array<float> values;          ///< The values of sparse entries, one for each of `columns`.
};

enum class Task : std::uint8_t {
  multiclass,  ///< Each node has one class. With two classes, ROC AUC applies.
  multilabel,  ///< Each node has any subset of the classes.
  regression,  ///< Each node has one number.
};

/// The targets of the prediction.
struct Labels {
  Task task = Task::multiclass;
  std::int32_t classes = 0;        ///< Columns of a model's output; 1 for regression.
  Array<std::int32_t> class_of;    ///< Multi-class: the class of each node, -1 if unlabelled.
  Array<std::uint8_t> indicators;  ///< Multi-label: nodes x classes, 1 if the node has the class.
  Array<std::uint8_t> labelled;    ///< Multi-label: 1 for each labelled node, else 0.

  Array<float> values;  ///< Regression: the target of each node, NaN if unlabelled.

  bool has_label(NodeId v) const {
    const auto i = static_cast<std::size_t>(v);
    if (task == Task::regression) return !std::isnan(values[i]);
    return task == Task::multiclass ? class_of[i] >= 0 : labelled[i] != 0;
  }
};

/// A node's part in a split.
enum class Role : std::uint8_t { none = 0, train = 1, validation = 2, test = 3 };

/// A split of the nodes. Unlabelled nodes have `Role::none`.
struct Split {
  Array<Role> role;  ///< The role of each node.
};

/// The data that a training run reads. Its arrays are immutable, and ranks that are threads share
/// them.
struct Dataset {
  std::string name;
  Graph graph;
  Features features;
  Labels labels;
  std::vector<Split> splits;             ///< May be empty; training then needs a random split.
  std::vector<std::string> class_names;  ///< One name for each class, or empty.
};

/// Checks in linear time that a data set is what its types promise. Graph: offsets that fit, rows
/// that ascend strictly, neighbours in range, no self-loop, both directions of undirected edges
/// with one weight, weights that are 0 or a normal fp32 number. Features: one row a node, finite
/// values, columns of sparse rows in range and ascending. Labels: classes in range, indicators 0 or
/// 1, no target infinite, at least one labelled node; distinct names in UTF-8, one a class, or
/// none. Splits: a role for every node, none for unlabelled nodes, at least one training node.
/// Throws Error: bad_input (names the data set, the array, the first fault and its node), resource
/// (2^31 or more nodes). `train`, `evaluate`, `write_shards` and `save_native` call it.
void validate(const Dataset& dataset);

}  // namespace heliograph
