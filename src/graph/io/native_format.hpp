#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "graph/io/manifest_file.hpp"
#include "heliograph/dataset.hpp"

// What the writer and the reader of a native directory share. The directory (docs/formats.md) holds
// manifest.json, manifest.xxh64 and one raw file for each array.

namespace heliograph {

/// Names of arrays. An array lies in the file NAME.bin; splits are named "role_0", "role_1", ...
namespace native_array {
inline constexpr std::string_view offsets = "offsets";                  ///< int64, nodes + 1.
inline constexpr std::string_view neighbours = "neighbours";            ///< int32, entries.
inline constexpr std::string_view edge_weights = "edge_weights";        ///< float32, entries.
inline constexpr std::string_view features = "features";                ///< float32, nodes x cols.
inline constexpr std::string_view feature_offsets = "feature_offsets";  ///< int64, nodes + 1.
inline constexpr std::string_view feature_columns = "feature_columns";  ///< int32.
inline constexpr std::string_view feature_values = "feature_values";    ///< float32.
inline constexpr std::string_view class_of = "class_of";                ///< int32, nodes.
inline constexpr std::string_view indicators = "indicators";            ///< uint8, nodes x classes.
inline constexpr std::string_view values = "values";                    ///< float32, nodes.
inline constexpr std::string_view labelled = "labelled";                ///< uint8, nodes.
inline std::string role(std::int64_t split) { return fmt::format("role_{}", split); }  ///< uint8.
}  // namespace native_array

/// Calls `use(name, array, count)` for each array that a data set needs, in the order of
/// `dataset_hash`. `count()` is the number of values that the array must have, or -1 for any
/// number. The data set's members other than arrays must be set.
template <class AnyDataset, class Use>
void for_each_array(AnyDataset& dataset, Use&& use) {
  const std::int64_t& nodes = dataset.graph.nodes;
  auto& features = dataset.features;
  auto& labels = dataset.labels;
  const auto one_a_node = [&] { return nodes; };
  const auto one_a_node_and_last = [&] { return nodes + 1; };
  const auto any = [] { return std::int64_t{-1}; };
  use(native_array::offsets, dataset.graph.offsets, one_a_node_and_last);
  use(native_array::neighbours, dataset.graph.neighbours, any);
  if (!dataset.graph.edge_weights.empty()) {
    use(native_array::edge_weights, dataset.graph.edge_weights, any);
  }
  if (features.sparse) {
    use(native_array::feature_offsets, features.offsets, one_a_node_and_last);
    use(native_array::feature_columns, features.columns, any);
    use(native_array::feature_values, features.values, any);
  } else {
    use(native_array::features, features.dense, [&] { return nodes * features.cols; });
  }
  if (labels.task == Task::multiclass) {
    use(native_array::class_of, labels.class_of, one_a_node);
  } else if (labels.task == Task::regression) {
    use(native_array::values, labels.values, one_a_node);
  } else {
    use(native_array::indicators, labels.indicators, [&] { return nodes * labels.classes; });
    use(native_array::labelled, labels.labelled, one_a_node);
  }
  for (std::size_t s = 0; s < dataset.splits.size(); ++s) {
    use(native_array::role(static_cast<std::int64_t>(s)), dataset.splits[s].role, one_a_node);
  }
}

/// The name of T as a dtype: "int64", "int32", "float32" or "uint8".
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
