#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "graph/io/npy.hpp"
#include "heliograph/log.hpp"

namespace heliograph {

/// Names that an array may have, in the order in which they are looked for.
using ArrayNames = std::span<const char* const>;

// The names of the arrays of a data set: our own, then those of PyTorch Geometric and DGL.
inline constexpr const char* kFeatureNames[] = {"node_features", "attr_matrix", "features",
                                                "feature",       "x",           "feat"};
inline constexpr const char* kEdgeNames[] = {"edges", "edge_index"};
inline constexpr const char* kWeightNames[] = {"edge_weight", "edge_weights"};  ///< Of edges.
inline constexpr const char* kEndNames[] = {"src", "dst"};  ///< Both: the edges src[i] -> dst[i].
inline constexpr const char* kLabelNames[] = {"labels", "node_labels", "label", "y"};
inline constexpr const char* kClassNames[] = {"class_names"};
inline constexpr const char* kTrainMasks[] = {"train_masks", "train_mask"};
inline constexpr const char* kValidationMasks[] = {"val_masks", "val_mask", "valid_mask"};
inline constexpr const char* kTestMasks[] = {"test_masks", "test_mask"};
inline constexpr const char* kTrainIndices[] = {"train_index", "train_idx"};
inline constexpr const char* kValidationIndices[] = {"val_index", "val_idx", "valid_idx"};
inline constexpr const char* kTestIndices[] = {"test_index", "test_idx"};
/// Parts of CSR matrices, in archives only.
inline constexpr const char* kMatrixNames[] = {"adj_data",    "adj_indices", "adj_indptr",
                                               "adj_shape",   "attr_data",   "attr_indices",
                                               "attr_indptr", "attr_shape"};

/// The named arrays at one place: the members of an archive or the .npy files of a folder. Notes
/// which are read. Members throw Error(bad_input) that names the place and the array.
class ArraySource {
 public:
  virtual ~ArraySource() = default;

  const std::string& where() const { return where_; }
  bool has(const std::string& name) const { return names_.contains(name); }

  /// Reads the array of this name.
  NpyArray read(const std::string& name) const {
    read_.insert(name);
    return load(name);
  }
  /// Lists an array that was read, but not used, among those that log_unread names.
  void leave_unread(const std::string& name) const { read_.erase(name); }
  /// The first of the names that an array has; null if there is none.
  const char* first_of(ArrayNames names) const;
  /// Reads the first array that has one of the names; nothing if there is none.
  std::optional<NpyArray> find(ArrayNames names) const;
  /// The same, but throws Error if there is none; `what` are, for example, the labels.
  NpyArray require(const char* what, ArrayNames names) const;
  /// Throws Error that says which arrays were found, and what was left unread: arrays of unknown
  /// names and tables that are no arrays. `other`: what may stand in place of one of `names`.
  [[noreturn]] void refuse_missing(const char* what, ArrayNames names, const char* other) const;
  /// Logs the names of the arrays and tables that were not read, if there are any.
  void log_unread(const LogCallback& log) const;

 protected:
  explicit ArraySource(std::string where) : where_(std::move(where)) {}
  virtual NpyArray load(const std::string& name) const = 0;
  /// What log_unread calls an array.
  virtual std::string title(const std::string& name) const { return name; }

  // To be filled by the constructor of a derived class.
  std::set<std::string> names_;
  std::set<std::string> tables_;  ///< Files beside the arrays that seem meant as such.

 private:
  std::string where_;
  mutable std::set<std::string> read_;
};

/// The .npy files of a folder, named without ".npy". Files such as features.csv are tables.
class FolderArrays final : public ArraySource {
 public:
  explicit FolderArrays(const std::filesystem::path& folder);

 private:
  NpyArray load(const std::string& name) const override;
};

/// Arrays that a reader makes from files of its form, each when it is read.
class MadeArrays final : public ArraySource {
 public:
  using Make = std::function<NpyArray()>;
  explicit MadeArrays(std::string where) : ArraySource(std::move(where)) {}

  /// `title`: the file or part of one that the array is made from, if it has another name.
  void add(const std::string& name, Make make, const std::string& title = "") {
    names_.insert(name);
    made_[name] = {std::move(make), title.empty() ? name : title};
  }
  /// A file or a part of one that log_unread names.
  void add_unread(const std::string& name) { tables_.insert(name); }

 private:
  struct Made {
    Make make;
    std::string title;
  };
  NpyArray load(const std::string& name) const override { return made_.at(name).make(); }
  std::string title(const std::string& name) const override { return made_.at(name).title; }
  std::map<std::string, Made> made_;
};

}  // namespace heliograph
