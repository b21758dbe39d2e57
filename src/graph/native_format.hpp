#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "graph/manifest_file.hpp"
#include "heliograph/dataset.hpp"

// The native directory (docs/formats.md): manifest.json, manifest.xxh64 and one raw file for each
// array. What the writer and the reader share.

namespace heliograph {

inline constexpr ManifestKind kNativeManifest{"heliograph-graph", 1, "a graph"};

/// What the arrays mean; everything else follows from their counts.
struct NativeManifest {
  std::string name;
  std::int64_t nodes = 0;
  bool directed = false;
  std::int64_t feature_cols = 0;
  bool sparse_features = false;
  Task task = Task::multiclass;
  std::int32_t classes = 0;
  std::int64_t splits = 0;
  std::vector<std::string> class_names;  ///< Empty, or one for each class.
};

/// Array names; the file is the name and ".bin". Splits are "role_0", "role_1", ...
namespace native_array {
inline constexpr std::string_view offsets = "offsets";                  ///< int64, nodes + 1.
inline constexpr std::string_view neighbours = "neighbours";            ///< int32, entries.
inline constexpr std::string_view features = "features";                ///< float32, nodes x cols.
inline constexpr std::string_view feature_offsets = "feature_offsets";  ///< int64, nodes + 1.
inline constexpr std::string_view feature_columns = "feature_columns";  ///< int32.
inline constexpr std::string_view feature_values = "feature_values";    ///< float32.
inline constexpr std::string_view class_of = "class_of";                ///< int32, nodes.
inline constexpr std::string_view indicators = "indicators";            ///< uint8, nodes x classes.
inline constexpr std::string_view labelled = "labelled";                ///< uint8, nodes.
std::string role(std::int64_t split);                                   ///< uint8, nodes.
}  // namespace native_array

/// The arrays that a manifest asks for, in the order of the directory's hash.
struct NativeArray {
  std::string name;
  std::string_view dtype;
  std::int64_t count;  ///< -1: as many as there are.
};
std::vector<NativeArray> native_arrays(const NativeManifest& manifest);

/// The manifest of a data set that is in memory.
NativeManifest describe(const Dataset& dataset);

/// Calls `use(name, span)` for each array of a data set, in the order of `native_arrays`.
template <class Use>
void for_each_array(const Dataset& dataset, Use&& use) {
  use(std::string(native_array::offsets), dataset.graph.offsets.span());
  use(std::string(native_array::neighbours), dataset.graph.neighbours.span());
  if (dataset.features.sparse) {
    use(std::string(native_array::feature_offsets), dataset.features.offsets.span());
    use(std::string(native_array::feature_columns), dataset.features.columns.span());
    use(std::string(native_array::feature_values), dataset.features.values.span());
  } else {
    use(std::string(native_array::features), dataset.features.dense.span());
  }
  if (dataset.labels.task == Task::multiclass) {
    use(std::string(native_array::class_of), dataset.labels.class_of.span());
  } else {
    use(std::string(native_array::indicators), dataset.labels.indicators.span());
    use(std::string(native_array::labelled), dataset.labels.labelled.span());
  }
  for (std::size_t s = 0; s < dataset.splits.size(); ++s) {
    use(native_array::role(static_cast<std::int64_t>(s)), dataset.splits[s].role.span());
  }
}

/// "int64", "int32", "float32" or "uint8".
template <class T>
constexpr std::string_view dtype_name() {
  if constexpr (std::is_same_v<T, std::int64_t>) {
    return "int64";
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return "int32";
  } else if constexpr (std::is_same_v<T, float>) {
    return "float32";
  } else {
    static_assert(std::is_same_v<T, std::uint8_t> || std::is_same_v<T, Role>);
    return "uint8";
  }
}

}  // namespace heliograph
