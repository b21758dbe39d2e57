#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/io/npy.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/log.hpp"

// The parts of a data set that every reader makes from arrays. All throw Error(bad_input) that
// names the array and the first offender.

namespace heliograph {

/// True for one axis; (n, 1) counts as one.
bool is_flat(const NpyArray& array);

/// Refuses features that do not fit the graph of the same data set.
void check_feature_rows(const Features& features, std::int64_t nodes, const std::string& where);

/// Any numeric nodes x cols array.
Features dense_features(const NpyArray& array);

/// CSR parts in any order within a row; duplicate columns are summed. `offsets` has rows + 1
/// entries that rise from 0 to the number of columns.
Features sparse_features(std::int64_t cols, std::vector<std::int64_t> offsets,
                         std::vector<std::int32_t> columns, std::vector<float> values,
                         const std::string& where);

/// (nodes,) or (nodes, 1): class ids, -1 unlabelled. (nodes, classes): 0 or 1, a row of -1 is an
/// unlabelled node.
Labels make_labels(const NpyArray& array, std::int64_t nodes);

/// Takes names for the classes where `array` holds unicode strings; other dtypes are skipped.
/// More names than classes seen widen `labels.classes`; fewer are refused.
std::vector<std::string> make_class_names(const NpyArray& array, Labels& labels);

/// Arrays that say which nodes are for training, validation and testing.
struct SplitArrays {
  std::optional<NpyArray> train, validation, test;
  bool any() const { return train || validation || test; }
};

/// From flags: (nodes,) for one split or (splits, nodes). Unlabelled nodes lose their role, and
/// the log says how many. All three arrays are required; none may overlap or be empty.
std::vector<Split> splits_from_masks(const SplitArrays& arrays, const Labels& labels,
                                     std::int64_t nodes, const LogCallback& log);

/// From lists of node numbers (counted from 0): one split. As above.
std::vector<Split> split_from_indices(const SplitArrays& arrays, const Labels& labels,
                                      std::int64_t nodes, const LogCallback& log);

}  // namespace heliograph
