#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/io/npy.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"
#include "heliograph/log.hpp"

// The parts of a data set that readers make from arrays. Every function throws Error(bad_input)
// that names the array and its first bad entry.

namespace heliograph {

/// An array in memory, for the functions below. T is a signed integer, float or double.
template <class T>
NpyArray as_array(std::string name, std::vector<T> values, std::vector<std::int64_t> shape) {
  constexpr char kKind = std::is_floating_point_v<T> ? 'f' : 'i';
  const auto owner = std::make_shared<const std::vector<T>>(std::move(values));
  return {std::move(name),  fmt::format("<{}{}", kKind, sizeof(T)), kKind, sizeof(T), false,
          std::move(shape), std::as_bytes(std::span(*owner)),       owner};
}

/// Whether an array has the shape (n,) or (n, 1).
bool is_flat(const NpyArray& array);

/// How many nodes an array, or the graph, is for: its rows. `cols` is 0 if there are none.
struct RowCount {
  std::string name;
  std::int64_t rows = 0, cols = 0;

  /// The file or the member alone.
  std::string short_name() const { return name.substr(name.find_last_of("/ ") + 1); }
};

/// The rows of labels, of which a value without axes has none. Throws Error(bad_input) if they are
/// no numbers or have rows that take no bytes, since both could claim any number of nodes.
RowCount rows_of_labels(const NpyArray& labels);

/// The number of nodes: the one that most of `counts` have or, if several are as frequent, the
/// first of these that exceeds `last`, the largest node of an edge, or the first. Refuses the first
/// one that differs, and says so if its columns would fit.
std::int64_t agree_on_nodes(const std::vector<RowCount>& counts, std::int64_t last = -1);

/// Makes dense features from a numeric nodes x cols array.
Features dense_features(const NpyArray& array);

/// Makes sparse features from the parts of a CSR matrix. Columns may be in any order within a row,
/// and duplicates are summed. `offsets` must have rows + 1 entries that do not decrease and run
/// from 0 to the number of columns.
Features sparse_features(std::int64_t cols, std::vector<std::int64_t> offsets,
                         std::vector<std::int32_t> columns, std::vector<float> values,
                         const std::string& where);

/// Makes labels, which may all be -1. An array of shape (nodes,) or (nodes, 1) holds class ids, or
/// -1 or NaN for unlabelled nodes. One of shape (nodes, classes) holds 0 or 1, or -1 in the whole
/// row of an unlabelled node. With `regression`, an array of shape (nodes,) or (nodes, 1) holds the
/// number to predict for each node, or NaN for unlabelled nodes.
Labels make_labels(const NpyArray& array, std::int64_t nodes, bool regression);

/// Makes class names from unicode strings; returns none for other dtypes. More names than
/// `labels.classes` increase it (multi-class only); fewer are refused.
std::vector<std::string> make_class_names(const NpyArray& array, Labels& labels);

/// The arrays that give nodes their roles in training, validation and testing.
struct SplitArrays {
  std::optional<NpyArray> train, validation, test;
  bool any() const { return train || validation || test; }
};

/// Whether splits are read: not if no node has a label, and thus none a role, and none is required.
bool may_have_splits(const ImportOptions& options, const Labels& labels);

/// Makes splits from flags of shape (splits, nodes) or (nodes, splits), the former if both fit, or
/// (nodes,), which serve for every split of the other arrays. Unlabelled nodes lose their role, and
/// the log says how many. All three arrays are required; within a split no two may overlap, and
/// each must have a labelled node.
std::vector<Split> splits_from_masks(const SplitArrays& arrays, const Labels& labels,
                                     std::int64_t nodes, const LogCallback& log);

/// Makes one split from lists of node numbers, counted from 0, under the rules of
/// splits_from_masks.
std::vector<Split> split_from_indices(const SplitArrays& arrays, const Labels& labels,
                                      std::int64_t nodes, const LogCallback& log);

}  // namespace heliograph
