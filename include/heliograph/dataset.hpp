#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heliograph/array.hpp"

namespace heliograph {

/// A node's number in the user's own order. Graphs of 2^31 nodes and more are refused by name.
using NodeId = std::int32_t;

/// A graph in compressed sparse rows: row v lists the in-neighbours u of v (edges u -> v).
/// Rows are sorted ascending and hold neither duplicates nor self-loops; models add self-loops
/// where they define them. An undirected graph lists each edge in both rows.
struct Graph {
  std::int64_t nodes = 0;
  bool directed = false;
  Array<std::int64_t> offsets;  ///< nodes + 1 entries.
  Array<NodeId> neighbours;     ///< offsets[nodes] entries.

  std::int64_t entries() const { return offsets.empty() ? 0 : offsets[offsets.size() - 1]; }
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
  Array<float> dense;           ///< rows * cols values; empty if sparse.
  Array<std::int64_t> offsets;  ///< rows + 1 entries; empty if dense.
  Array<std::int32_t> columns;  ///< Sorted ascending in each row.
  Array<float> values;          ///< One for each of `columns`.
};

enum class Task : std::uint8_t {
  multiclass,  ///< One class a node. Two classes are a binary target: ROC AUC applies.
  multilabel,  ///< Any subset of the classes a node.
};

/// What is to be predicted.
struct Labels {
  Task task = Task::multiclass;
  std::int32_t classes = 0;
  Array<std::int32_t> class_of;    ///< Multi-class: nodes entries, -1 where unlabelled.
  Array<std::uint8_t> indicators;  ///< Multi-label: nodes x classes, 0 or 1.
  Array<std::uint8_t> labelled;    ///< Multi-label: nodes entries, 0 or 1.

  bool has_label(NodeId v) const {
    const auto i = static_cast<std::size_t>(v);
    return task == Task::multiclass ? class_of[i] >= 0 : labelled[i] != 0;
  }
};

/// A node's part in a split.
enum class Role : std::uint8_t { none = 0, train = 1, validation = 2, test = 3 };

/// One split: a role for each node. Unlabelled nodes have `Role::none`.
struct Split {
  Array<Role> role;
};

/// Everything a training run reads. Immutable; shared between ranks that are threads.
struct Dataset {
  std::string name;
  Graph graph;
  Features features;
  Labels labels;
  std::vector<Split> splits;             ///< May be empty: then a random split is asked for.
  std::vector<std::string> class_names;  ///< Empty, or one for each class.
};

}  // namespace heliograph
