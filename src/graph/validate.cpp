#include "graph/validate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/noise.hpp"
#include "graph/edge_weights.hpp"
#include "graph/refuse.hpp"
#include "graph/rows.hpp"
#include "graph/utf8.hpp"

namespace heliograph {
namespace {

void check_size(const std::string& where, const char* array, std::size_t size,
                std::int64_t wanted) {
  if (static_cast<std::int64_t>(size) != wanted) {
    refuse(where, "{} holds {} values, not {}: {}", array, size, wanted,
           difference(static_cast<std::int64_t>(size), wanted));
  }
}

/// Refuses anything but `rows` + 1 offsets that do not decrease and run from 0 to `entries`.
void check_offsets(const std::string& where, const char* array, const Array<std::int64_t>& offsets,
                   std::int64_t rows, std::size_t entries) {
  check_size(where, array, offsets.size(), rows + 1);
  if (offsets[0] != 0) refuse(where, "{} does not start at 0", array);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    if (offsets[r + 1] < offsets[r]) refuse(where, "{} falls at row {}", array, r);
  }
  if (static_cast<std::size_t>(offsets[static_cast<std::size_t>(rows)]) != entries) {
    refuse(where, "{} ends at {}, but there are {} entries", array,
           offsets[static_cast<std::size_t>(rows)], entries);
  }
}

/// Refuses a row with columns outside [0, cols) or not strictly ascending, and neighbours that are
/// the node of their row.
void check_columns(const std::string& where, const char* array, const Array<std::int64_t>& offsets,
                   const Array<std::int32_t>& columns, std::int64_t rows, std::int64_t cols,
                   bool are_neighbours = false) {
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t last = -1;
    const auto row = static_cast<std::size_t>(r);
    for (std::int64_t i = offsets[row]; i < offsets[row + 1]; ++i) {
      const std::int64_t c = columns[static_cast<std::size_t>(i)];
      if (c < 0 || c >= cols) {
        refuse(where, "{} of row {} holds {}, which is not in [0, {})", array, r, c, cols);
      }
      if (c <= last) {
        refuse(where, "{} of row {} does not ascend: {} follows {}", array, r, c, last);
      }
      if (are_neighbours && c == r) refuse(where, "node {} is its own neighbour", r);
      last = c;
    }
  }
}

[[noreturn]] void not_finite(const std::string& where, float value, std::int64_t node,
                             std::int64_t column) {
  refuse(where, "feature of node {}, column {} is {}", node, column, value);
}

}  // namespace

void validate_graph(const Graph& graph, const std::string& where) {
  if (graph.nodes < 0) refuse(where, "a graph cannot have {} nodes", graph.nodes);
  if (graph.nodes > std::numeric_limits<NodeId>::max()) {
    throw_error(ErrorCode::resource, "{}: {} nodes: a graph must have fewer than 2^31 nodes", where,
                graph.nodes);
  }
  check_offsets(where, "offsets", graph.offsets, graph.nodes, graph.neighbours.size());
  check_columns(where, "neighbours", graph.offsets, graph.neighbours, graph.nodes, graph.nodes,
                true);
  if (graph.edge_weights.empty()) return;
  check_size(where, "edge_weights", graph.edge_weights.size(), graph.entries());
  for (NodeId v = 0; v < graph.nodes; ++v) {
    for (std::int64_t i = graph.offsets[at(v)]; i < graph.offsets[at(v) + 1]; ++i) {
      const float weight = graph.edge_weights[at(i)];
      if (is_edge_weight(weight)) continue;
      refuse(where,
             "the weight of the edge {} -> {} is {}, which is neither 0 nor a normal fp32 number",
             graph.neighbours[at(i)], v, weight);
    }
  }
}

void validate_features(const Features& features, std::int64_t nodes, const std::string& where) {
  if (features.rows != nodes) {
    refuse(where, "{} feature rows for {} nodes: {}", features.rows, nodes,
           difference(features.rows, nodes));
  }
  if (features.cols < 1 || features.cols > std::numeric_limits<std::int32_t>::max()) {
    refuse(where, "{} feature columns: a data set has 1 to 2^31 - 1", features.cols);
  }
  const std::int64_t cols = features.cols;
  if (!features.sparse) {
    std::int64_t wanted = 0;
    if (__builtin_mul_overflow(nodes, cols, &wanted)) refuse(where, "the features overflow");
    check_size(where, "features", features.dense.size(), wanted);
    for (std::size_t i = 0; i < features.dense.size(); ++i) {
      if (!std::isfinite(features.dense[i])) {
        const auto at = static_cast<std::int64_t>(i);
        not_finite(where, features.dense[i], at / cols, at % cols);
      }
    }
    return;
  }
  check_offsets(where, "feature_offsets", features.offsets, nodes, features.columns.size());
  check_size(where, "feature_values", features.values.size(),
             static_cast<std::int64_t>(features.columns.size()));
  check_columns(where, "feature_columns", features.offsets, features.columns, nodes, cols);
  for (std::int64_t v = 0; v < nodes; ++v) {
    const auto row = static_cast<std::size_t>(v);
    for (std::int64_t i = features.offsets[row]; i < features.offsets[row + 1]; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (!std::isfinite(features.values[at])) {
        not_finite(where, features.values[at], v, features.columns[at]);
      }
    }
  }
}

void validate_labels(const Labels& labels, std::int64_t nodes, const std::string& where,
                     bool needs_labels) {
  if (labels.classes < 1 || labels.classes > kMaxClasses) {
    refuse(where, "{} classes: a data set has 1 to {}", labels.classes, kMaxClasses);
  }
  if (labels.task == Task::multiclass) {
    check_size(where, "class_of", labels.class_of.size(), nodes);
    for (std::int64_t v = 0; v < nodes; ++v) {
      const std::int32_t c = labels.class_of[static_cast<std::size_t>(v)];
      if (c < -1 || c >= labels.classes) {
        refuse(where,
               "the label of node {} is {}, which is not in [0, {}) nor -1 for "
               "unlabelled",
               v, c, labels.classes);
      }
    }
  } else if (labels.task == Task::regression) {
    if (labels.classes != 1) refuse(where, "{} targets a node: there is 1", labels.classes);
    check_size(where, "values", labels.values.size(), nodes);
    for (std::int64_t v = 0; v < nodes; ++v) {
      const float value = labels.values[static_cast<std::size_t>(v)];
      if (std::isinf(value)) {
        refuse(where, "the target of node {} is {}, which is neither finite nor NaN for unlabelled",
               v, value);
      }
    }
  } else {
    check_size(where, "labelled", labels.labelled.size(), nodes);
    check_size(where, "indicators", labels.indicators.size(), nodes * labels.classes);
    for (std::size_t i = 0; i < labels.indicators.size(); ++i) {
      if (labels.indicators[i] > 1) {
        const auto at = static_cast<std::int64_t>(i);
        refuse(where, "label [{}, {}] is {}, which is neither 0 nor 1", at / labels.classes,
               at % labels.classes, labels.indicators[i]);
      }
    }
    for (std::int64_t v = 0; v < nodes; ++v) {
      const std::uint8_t flag = labels.labelled[static_cast<std::size_t>(v)];
      if (flag > 1) refuse(where, "labelled of node {} is {}", v, flag);
    }
  }
  if (needs_labels && !any_labelled(labels)) refuse(where, "no node has a label");
}

bool any_labelled(const Labels& labels) {
  if (labels.task == Task::regression) {
    return std::ranges::any_of(labels.values, [](float value) { return !std::isnan(value); });
  }
  return labels.task == Task::multiclass
             ? std::ranges::any_of(labels.class_of, [](std::int32_t c) { return c >= 0; })
             : std::ranges::any_of(labels.labelled, [](std::uint8_t flag) { return flag != 0; });
}

void validate_symmetry(const Graph& graph, const std::string& where) {
  const auto weight = [&](std::int64_t i) {
    return graph.edge_weights.empty() ? 1.0F : graph.edge_weights[at(i)];
  };
  // Without duplicates, the entries above the diagonal mirror those below it if and, but for one
  // chance in 2^64, only if the hashes of their edges and weights have the same sum. Unlike the
  // exact check below, which finds the nodes to name, this reads the graph in order.
  std::uint64_t balance = 0;
  for (NodeId v = 0; v < graph.nodes; ++v) {
    for (std::int64_t i = graph.offsets[at(v)]; i < graph.offsets[at(v) + 1]; ++i) {
      const NodeId u = graph.neighbours[at(i)];
      const std::uint64_t ends = mix64(static_cast<std::uint64_t>(std::min(u, v)) << 32U |
                                       static_cast<std::uint64_t>(std::max(u, v)));
      const auto bits = std::bit_cast<std::uint32_t>(weight(i) + 0.0F);  // 0 and -0 are equal
      const std::uint64_t edge = graph.edge_weights.empty() ? ends : mix64(ends ^ bits);
      balance += u < v ? edge : 0 - edge;
    }
  }
  if (balance == 0) return;
  // Rows ascend, so when v is visited, the next unmatched entry of each neighbour's row must be v.
  std::vector<std::int64_t> next(graph.offsets.begin(), graph.offsets.end());
  for (NodeId v = 0; v < graph.nodes; ++v) {
    for (std::int64_t e = graph.offsets[at(v)]; e < graph.offsets[at(v) + 1]; ++e) {
      const NodeId u = graph.neighbours[at(e)];
      const std::int64_t i = next[at(u)]++;
      const bool more = i < graph.offsets[at(u) + 1];
      if (more && graph.neighbours[at(i)] == v) {
        if (weight(e) == weight(i)) continue;
        refuse(where, "undirected, but the edge {} - {} has the weights {} and {}", v, u, weight(e),
               weight(i));
      }
      // An entry before v that was not matched comes from a node that does not list u.
      const NodeId one = more ? std::min(v, graph.neighbours[at(i)]) : v;
      refuse(where, "undirected, but only one of nodes {} and {} lists the other", one, u);
    }
  }
}

void validate(const Dataset& dataset) {
  const std::string where = fmt::format("the data set '{}'", dataset.name);
  validate_dataset(dataset, where);
  if (!dataset.graph.directed) validate_symmetry(dataset.graph, where);
}

void validate_dataset(const Dataset& dataset, const std::string& where, bool needs_labels) {
  const std::int64_t nodes = dataset.graph.nodes;
  if (nodes == 0) refuse(where, "the graph has no nodes");
  validate_graph(dataset.graph, where);
  validate_features(dataset.features, nodes, where);
  validate_labels(dataset.labels, nodes, where, needs_labels);
  if (!dataset.class_names.empty() &&
      dataset.class_names.size() != static_cast<std::size_t>(dataset.labels.classes)) {
    refuse(where, "{} class names for {} classes", dataset.class_names.size(),
           dataset.labels.classes);
  }
  std::vector<std::string> names = dataset.class_names;
  for (std::size_t c = 0; c < names.size(); ++c) {
    if (!is_utf8(names[c])) refuse(where, "the name of class {} is not UTF-8", c);
  }
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
    refuse(where, "two classes have the name '{}': give each its own, or merge them", *twice);
  }
  for (std::size_t s = 0; s < dataset.splits.size(); ++s) {
    const Array<Role>& role = dataset.splits[s].role;
    check_size(where, fmt::format("split {}", s).c_str(), role.size(), nodes);
    bool trains = false;
    for (std::int64_t v = 0; v < nodes; ++v) {
      const Role r = role[static_cast<std::size_t>(v)];
      if (r > Role::test) {
        refuse(where, "split {}: node {} has the unknown role {}", s, v, static_cast<int>(r));
      }
      if (r != Role::none && !dataset.labels.has_label(static_cast<NodeId>(v))) {
        refuse(where, "split {}: node {} has a role but no label", s, v);
      }
      trains = trains || r == Role::train;
    }
    if (!trains) refuse(where, "split {}: no node is for training", s);
  }
}

}  // namespace heliograph
