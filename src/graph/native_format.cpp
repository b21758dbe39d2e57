#include "graph/native_format.hpp"

#include <fmt/format.h>

namespace heliograph {

std::string native_array::role(std::int64_t split) { return fmt::format("role_{}", split); }

std::vector<NativeArray> native_arrays(const NativeManifest& manifest) {
  const std::int64_t n = manifest.nodes;
  std::vector<NativeArray> arrays;
  const auto put = [&](std::string_view name, std::string_view dtype, std::int64_t count) {
    arrays.push_back({std::string(name), dtype, count});
  };
  put(native_array::offsets, dtype_name<std::int64_t>(), n + 1);
  put(native_array::neighbours, dtype_name<NodeId>(), -1);
  if (manifest.sparse_features) {
    put(native_array::feature_offsets, dtype_name<std::int64_t>(), n + 1);
    put(native_array::feature_columns, dtype_name<std::int32_t>(), -1);
    put(native_array::feature_values, dtype_name<float>(), -1);
  } else {
    put(native_array::features, dtype_name<float>(), n * manifest.feature_cols);
  }
  if (manifest.task == Task::multiclass) {
    put(native_array::class_of, dtype_name<std::int32_t>(), n);
  } else {
    put(native_array::indicators, dtype_name<std::uint8_t>(), n * manifest.classes);
    put(native_array::labelled, dtype_name<std::uint8_t>(), n);
  }
  for (std::int64_t s = 0; s < manifest.splits; ++s) {
    put(native_array::role(s), dtype_name<std::uint8_t>(), n);
  }
  return arrays;
}

NativeManifest describe(const Dataset& dataset) {
  NativeManifest manifest;
  manifest.name = dataset.name;
  manifest.nodes = dataset.graph.nodes;
  manifest.directed = dataset.graph.directed;
  manifest.feature_cols = dataset.features.cols;
  manifest.sparse_features = dataset.features.sparse;
  manifest.task = dataset.labels.task;
  manifest.classes = dataset.labels.classes;
  manifest.splits = static_cast<std::int64_t>(dataset.splits.size());
  manifest.class_names = dataset.class_names;
  return manifest;
}

}  // namespace heliograph
