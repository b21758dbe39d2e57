#include "graph/io/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "core/plural.hpp"
#include "graph/io/from_one.hpp"
#include "graph/refuse.hpp"
#include "graph/validate.hpp"

namespace heliograph {
namespace {

constexpr const char* kUnlabelled = "; -1 is unlabelled";

Labels multiclass_labels(const NpyArray& array, std::int64_t nodes) {
  const std::string advice =
      spell_options("; -1 is unlabelled, and --regression reads numbers to predict");
  std::vector<std::int32_t> ids = to_int32(array, advice.c_str(), -1);
  std::int32_t largest = -1;
  for (std::int64_t v = 0; v < nodes; ++v) {
    const std::int32_t id = ids[static_cast<std::size_t>(v)];
    if (id < -1 || id >= kMaxClasses) {
      refuse(array.name,
             "the label of node {} is {}, which is not in [0, {}) nor -1 "
             "for unlabelled",
             v, id, kMaxClasses);
    }
    largest = std::max(largest, id);
  }
  Labels labels;
  labels.classes = std::max(largest, 0) + 1;
  labels.class_of = std::move(ids);
  return labels;
}

Labels regression_labels(const NpyArray& array) {
  Labels labels;
  labels.task = Task::regression;
  labels.classes = 1;
  labels.values = to_float32(array);
  for (std::size_t v = 0; v < labels.values.size(); ++v) {
    if (!std::isinf(labels.values[v])) continue;
    refuse(array.name, "the target of node {} is {}; NaN is unlabelled", v, labels.values[v]);
  }
  return labels;
}

Labels multilabel_labels(const NpyArray& array, std::int64_t nodes) {
  const std::int64_t classes = array.shape[1];
  if (classes > kMaxClasses) {
    refuse(array.name, "{} classes: a data set has at most {}", classes, kMaxClasses);
  }
  const std::vector<std::int32_t> values = to_int32(array, kUnlabelled);
  std::vector<std::uint8_t> indicators(values.size(), 0);
  std::vector<std::uint8_t> labelled(static_cast<std::size_t>(nodes), 0);
  for (std::int64_t v = 0; v < nodes; ++v) {
    std::int64_t absent = 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      const auto at = static_cast<std::size_t>(v * classes + c);
      if (values[at] < -1 || values[at] > 1) {
        refuse(array.name, "label [{}, {}] is {}, which is not 0, 1 or -1", v, c, values[at]);
      }
      absent += values[at] == -1 ? 1 : 0;
      indicators[at] = values[at] == 1 ? 1 : 0;
    }
    if (absent != 0 && absent != classes) {
      refuse(array.name,
             "only some labels of node {} are -1: either all of them must be -1 (unlabelled) "
             "or none",
             v);
    }
    labelled[static_cast<std::size_t>(v)] = absent == 0 ? 1 : 0;
  }
  Labels labels;
  labels.task = Task::multilabel;
  labels.classes = static_cast<std::int32_t>(classes);
  labels.indicators = std::move(indicators);
  labels.labelled = std::move(labelled);
  return labels;
}

/// Turns nodes x splits flags into splits x nodes.
std::vector<std::uint8_t> transposed(const std::vector<std::uint8_t>& flags, std::size_t splits) {
  std::vector<std::uint8_t> out(flags.size());
  const std::size_t nodes = flags.size() / splits;
  for (std::size_t i = 0; i < flags.size(); ++i) out[i % splits * nodes + i / splits] = flags[i];
  return out;
}

/// All three arrays with their roles. Throws Error(bad_input) if one is missing.
std::array<std::pair<const NpyArray*, Role>, 3> arrays_by_role(const SplitArrays& arrays) {
  const std::array<std::tuple<const std::optional<NpyArray>*, Role, const char*>, 3> all = {
      {{&arrays.train, Role::train, "training"},
       {&arrays.validation, Role::validation, "validation"},
       {&arrays.test, Role::test, "test"}}};
  std::array<std::pair<const NpyArray*, Role>, 3> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [array, role, word] = all[i];
    if (!*array) {
      const NpyArray& given = arrays.train        ? *arrays.train
                              : arrays.validation ? *arrays.validation
                                                  : *arrays.test;
      refuse(given.name, "is given, but nothing says which nodes are {} nodes", word);
    }
    out[i] = {&**array, role};
  }
  return out;
}

/// Fills one split, role by role: `start`, `assign` for each node, `end`. Then call `finish`.
class RoleWriter {
 public:
  RoleWriter(const Labels& labels, std::int64_t nodes, std::size_t split)
      : labels_(labels), split_(split), roles_(static_cast<std::size_t>(nodes), Role::none) {}

  void start(const NpyArray& array, Role role) {
    array_ = &array;
    role_ = role;
    taken_ = 0;
  }

  void assign(std::int64_t node) {
    Role& role = roles_[static_cast<std::size_t>(node)];
    if (role == role_) refuse(array_->name, "lists node {} twice; remove one", node);
    if (role != Role::none) {
      refuse(array_->name, "split {}: node {} is in another set of the split as well", split_,
             node);
    }
    if (!labels_.has_label(static_cast<NodeId>(node))) {
      ++unlabelled_;
      return;
    }
    role = role_;
    ++taken_;
  }

  void end() const {
    if (taken_ > 0) return;
    if (!any_labelled(labels_)) {
      refuse(array_->name, "no node of the data set has a label: they are all NaN or -1");
    }
    refuse(array_->name, "split {}: is empty (no labelled node is in it)", split_);
  }

  Split finish(const LogCallback& log) {
    if (unlabelled_ > 0 && log) {
      log(LogLevel::warning, fmt::format("split {}: left out {} without a label", split_,
                                         counted(unlabelled_, "node")));
    }
    return {std::move(roles_)};
  }

 private:
  const Labels& labels_;
  std::size_t split_;
  std::vector<Role> roles_;
  const NpyArray* array_ = nullptr;
  Role role_ = Role::none;
  std::int64_t taken_ = 0;
  std::int64_t unlabelled_ = 0;
};

}  // namespace

bool is_flat(const NpyArray& array) {
  return array.shape.size() == 1 || (array.shape.size() == 2 && array.shape[1] == 1);
}

RowCount rows_of_labels(const NpyArray& labels) {
  require_numbers(labels);
  const auto axis = [&](std::size_t i) { return i < labels.shape.size() ? labels.shape[i] : 0; };
  // Labels that take no bytes do not prove that there are so many nodes.
  if (labels.data.empty() && axis(0) > 0) refuse(labels.name, "has shape {}", labels.shape_text());
  return {labels.name, axis(0), axis(1)};
}

std::int64_t agree_on_nodes(const std::vector<RowCount>& counts, std::int64_t last) {
  const auto weight = [&](const RowCount& count) {
    return std::pair(std::ranges::count(counts, count.rows, &RowCount::rows), count.rows > last);
  };
  const RowCount& chosen = *std::ranges::max_element(counts, {}, weight);  // The first of equals.
  for (const RowCount& count : counts) {
    if (count.rows == chosen.rows) continue;
    refuse(count.name, "has {} rows, but {} has {}: {}{}", count.rows, chosen.short_name(),
           chosen.rows, difference(count.rows, chosen.rows),
           count.cols == chosen.rows ? "; is it transposed?" : "");
  }
  return chosen.rows;
}

Features dense_features(const NpyArray& array) {
  if (array.shape.size() != 2) {
    refuse(array.name, "has shape {}; features are nodes x columns", array.shape_text());
  }
  // Rows without columns take no bytes, so a short file could claim any number of nodes.
  if (array.shape[1] == 0) refuse(array.name, "has no columns");
  Features features;
  features.rows = array.shape[0];
  features.cols = array.shape[1];
  features.dense = to_float32(array);
  return features;
}

Features sparse_features(std::int64_t cols, std::vector<std::int64_t> offsets,
                         std::vector<std::int32_t> columns, std::vector<float> values,
                         const std::string& where) {
  const std::size_t rows = offsets.size() - 1;
  std::vector<std::pair<std::int32_t, float>> row;
  std::size_t kept = 0;
  std::size_t begin = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto end = static_cast<std::size_t>(offsets[r + 1]);
    row.clear();
    for (std::size_t i = begin; i < end; ++i) {
      if (columns[i] < 0 || columns[i] >= cols) {
        refuse(where, "a feature of node {} is in column {}, which is not in [0, {})", r,
               columns[i], cols);
      }
      row.emplace_back(columns[i], values[i]);
    }
    std::stable_sort(row.begin(), row.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    const std::size_t row_kept = kept;
    for (const auto& [column, value] : row) {
      if (kept > row_kept && columns[kept - 1] == column) {
        values[kept - 1] += value;
      } else {
        columns[kept] = column;
        values[kept++] = value;
      }
    }
    offsets[r + 1] = static_cast<std::int64_t>(kept);
    begin = end;
  }
  columns.resize(kept);
  values.resize(kept);
  Features features;
  features.rows = static_cast<std::int64_t>(rows);
  features.cols = cols;
  features.sparse = true;
  features.offsets = std::move(offsets);
  features.columns = std::move(columns);
  features.values = std::move(values);
  return features;
}

Labels make_labels(const NpyArray& array, std::int64_t nodes, bool regression) {
  if (array.shape.empty() || array.shape[0] != nodes) {
    refuse(array.name, "has shape {}, which does not fit {} nodes", array.shape_text(), nodes);
  }
  if (is_flat(array))
    return regression ? regression_labels(array) : multiclass_labels(array, nodes);
  if (regression) {
    refuse(array.name, "has shape {}; with --regression there is one number a node",
           array.shape_text());
  }
  if (array.shape.size() == 2 && array.shape[1] > 1) return multilabel_labels(array, nodes);
  refuse(array.name, "has shape {}; labels are (nodes,) or (nodes, classes)", array.shape_text());
}

std::vector<std::string> make_class_names(const NpyArray& array, Labels& labels) {
  if (array.kind != 'U') return {};
  std::vector<std::string> names = to_strings(array);
  const auto count = static_cast<std::int64_t>(names.size());
  if (count < labels.classes || count > kMaxClasses) {
    refuse(array.name, "{} names, but the labels go up to class {}", count, labels.classes - 1);
  }
  if (labels.task == Task::multilabel && count != labels.classes) {
    refuse(array.name, "{} names for {} classes", count, labels.classes);
  }
  labels.classes = static_cast<std::int32_t>(count);
  return names;
}

bool may_have_splits(const ImportOptions& options, const Labels& labels) {
  return options.requires_labels || any_labelled(labels);
}

std::vector<Split> splits_from_masks(const SplitArrays& arrays, const Labels& labels,
                                     std::int64_t nodes, const LogCallback& log) {
  const auto masks = arrays_by_role(arrays);
  std::array<std::vector<std::uint8_t>, 3> flags;
  const NpyArray* widest = nullptr;
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const NpyArray& array = *masks[i].first;
    const std::size_t axes = array.shape.size();
    const bool by_split = axes >= 1 && axes <= 2 && array.shape.back() == nodes;
    const bool by_node = axes == 2 && array.shape[0] == nodes;
    if ((!by_split && !by_node) || array.elements() == 0) {
      refuse(array.name, "has shape {}; a mask is ({},), (splits, {}) or ({}, splits){}",
             array.shape_text(), nodes, nodes, nodes,
             is_flat(array) && array.kind != 'b'
                 ? "; lists of nodes are named train_idx, val_idx and test_idx"
                 : "");
    }
    if (widest == nullptr || array.elements() > widest->elements()) widest = &array;
    flags[i] = to_flags(array);
    if (!by_split) flags[i] = transposed(flags[i], static_cast<std::size_t>(array.shape[1]));
  }
  const auto row_size = static_cast<std::size_t>(nodes);
  const std::size_t splits = static_cast<std::size_t>(widest->elements()) / row_size;
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const std::size_t count = flags[i].size() / row_size;
    if (count == 1 || count == splits) continue;
    refuse(masks[i].first->name, "holds {} splits, but {} holds {}", count, widest->name, splits);
  }
  std::vector<Split> out;
  for (std::size_t s = 0; s < splits; ++s) {
    RoleWriter writer(labels, nodes, s);
    for (std::size_t i = 0; i < masks.size(); ++i) {
      writer.start(*masks[i].first, masks[i].second);
      const bool only = flags[i].size() == row_size;
      const std::uint8_t* const row = flags[i].data() + (only ? 0 : s * row_size);
      for (std::int64_t v = 0; v < nodes; ++v) {
        if (row[v] != 0) writer.assign(v);
      }
      writer.end();
    }
    out.push_back(writer.finish(log));
  }
  return out;
}

std::vector<Split> split_from_indices(const SplitArrays& arrays, const Labels& labels,
                                      std::int64_t nodes, const LogCallback& log) {
  RoleWriter writer(labels, nodes, 0);
  for (const auto& [array, role] : arrays_by_role(arrays)) {
    if (!is_flat(*array)) {
      refuse(array->name, "has shape {}, which is not a list of nodes", array->shape_text());
    }
    const std::vector<std::int64_t> members = to_int64(*array);
    const bool flags = std::ranges::all_of(members, [](auto value) { return (value | 1) == 1; });
    if (array->kind == 'b' || (flags && members.size() > 2)) {
      refuse(array->name,
             "holds only 0 and 1 (or false and true), but this name is that of a list of nodes; "
             "give all three sets as masks: train_mask, val_mask and test_mask");
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i] < 0 || members[i] >= nodes) {
        refuse(array->name, "entry {} is node {}, which is not in [0, {}){}", i, members[i], nodes,
               from_one_hint(fits_from_one(members, nodes)));
      }
    }
    writer.start(*array, role);
    for (const std::int64_t node : members) writer.assign(node);
    writer.end();
  }
  return {writer.finish(log)};
}

}  // namespace heliograph
