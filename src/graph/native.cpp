#include "graph/native.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "graph/files.hpp"
#include "graph/native_format.hpp"
#include "graph/native_writer.hpp"
#include "graph/validate.hpp"
#include "heliograph/error.hpp"
#include "heliograph/io.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A whole number; get<> alone would cut off what does not fit.
template <class T>
T whole_number(const json& object, const char* key, const fs::path& path) {
  const json& value = object.at(key);
  const bool held = value.is_number_unsigned()
                        ? std::in_range<T>(value.get<std::uint64_t>())
                        : value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
  if (!held) {
    refuse_file(path,
                fmt::format("cannot be interpreted: {} is {}, which is not a whole number of {} "
                            "bits",
                            key, value.dump(), 8 * sizeof(T)));
  }
  return value.get<T>();
}

NativeManifest interpret(const json& object, const fs::path& path) {
  NativeManifest manifest;
  manifest.name = object.at("name").get<std::string>();
  manifest.nodes = whole_number<std::int64_t>(object, "nodes", path);
  manifest.directed = object.at("directed").get<bool>();
  manifest.feature_cols = whole_number<std::int64_t>(object.at("features"), "cols", path);
  manifest.sparse_features = object.at("features").at("sparse").get<bool>();
  const json& labels = object.at("labels");
  const auto task = labels.at("task").get<std::string>();
  if (task != "multiclass" && task != "multilabel") {
    refuse_file(path, fmt::format("has the unknown task {}", task));
  }
  manifest.task = task == "multilabel" ? Task::multilabel : Task::multiclass;
  manifest.classes = whole_number<std::int32_t>(labels, "classes", path);
  manifest.class_names = labels.at("class_names").get<std::vector<std::string>>();
  manifest.splits = whole_number<std::int64_t>(object, "splits", path);
  return manifest;
}

/// Maps the arrays that the manifest lists, each checked against its count and checksum.
class ArrayFiles {
 public:
  ArrayFiles(fs::path directory, const json& arrays) : directory_(std::move(directory)) {
    for (const json& entry : arrays) listed_[entry.at("name").get<std::string>()] = entry;
  }

  template <class T>
  Array<T> map(std::string_view name) const {
    const auto it = listed_.find(std::string(name));
    if (it == listed_.end()) {
      refuse_file(directory_ / kManifestFile, fmt::format("does not list the array {}", name));
    }
    const json& entry = it->second;
    if (entry.at("dtype").get<std::string>() != dtype_name<T>()) {
      refuse_file(directory_ / kManifestFile,
                  fmt::format("gives the array {} another dtype than {}", name, dtype_name<T>()));
    }
    const fs::path path = directory_ / entry.at("file").get<std::string>();
    const auto count = entry.at("count").get<std::uint64_t>();
    auto file = MappedFile::open(path);
    const std::span<const std::byte> bytes = file->bytes();
    if (bytes.size() / sizeof(T) != count || bytes.size() % sizeof(T) != 0) {
      refuse_file(path, fmt::format("is damaged: {} bytes instead of {} values of {} bytes",
                                    bytes.size(), count, sizeof(T)));
    }
    if (hex64(xxh64(bytes)) != entry.at("xxh64").get<std::string>()) {
      refuse_file(path, "is damaged: its bytes do not match the checksum in the manifest");
    }
    return {std::span(reinterpret_cast<const T*>(bytes.data()), count), std::move(file)};
  }

 private:
  fs::path directory_;
  std::map<std::string, json> listed_;
};

Dataset map_dataset(const NativeManifest& manifest, const ArrayFiles& files) {
  Dataset dataset;
  dataset.name = manifest.name;
  dataset.class_names = manifest.class_names;
  dataset.graph.nodes = manifest.nodes;
  dataset.graph.directed = manifest.directed;
  dataset.graph.offsets = files.map<std::int64_t>(native_array::offsets);
  dataset.graph.neighbours = files.map<NodeId>(native_array::neighbours);
  Features& features = dataset.features;
  features.rows = manifest.nodes;
  features.cols = manifest.feature_cols;
  features.sparse = manifest.sparse_features;
  if (features.sparse) {
    features.offsets = files.map<std::int64_t>(native_array::feature_offsets);
    features.columns = files.map<std::int32_t>(native_array::feature_columns);
    features.values = files.map<float>(native_array::feature_values);
  } else {
    features.dense = files.map<float>(native_array::features);
  }
  Labels& labels = dataset.labels;
  labels.task = manifest.task;
  labels.classes = manifest.classes;
  if (labels.task == Task::multiclass) {
    labels.class_of = files.map<std::int32_t>(native_array::class_of);
  } else {
    labels.indicators = files.map<std::uint8_t>(native_array::indicators);
    labels.labelled = files.map<std::uint8_t>(native_array::labelled);
  }
  for (std::int64_t s = 0; s < manifest.splits; ++s) {
    dataset.splits.push_back({files.map<Role>(native_array::role(s))});
  }
  return dataset;
}

}  // namespace

bool is_native(const fs::path& directory) {
  return fs::exists(directory / kManifestFile) || fs::exists(directory / kManifestHashFile);
}

Dataset load_native(const fs::path& directory) {
  const json object = read_manifest_file(directory, kNativeManifest);
  Dataset dataset;
  try {
    dataset = map_dataset(interpret(object, directory / kManifestFile),
                          ArrayFiles(directory, object.at("arrays")));
  } catch (const json::exception& error) {  // A key that is missing or of another type.
    refuse_file(directory / kManifestFile, fmt::format("cannot be interpreted: {}", error.what()));
  }
  return dataset;
}

void save_native(const Dataset& dataset, const fs::path& directory, bool overwrite) {
  const std::string where = "the data set " + dataset.name;
  validate_dataset(dataset, where);
  if (!dataset.graph.directed) validate_symmetry(dataset.graph, where);
  NativeWriter writer(directory, overwrite);
  for_each_array(dataset,
                 [&](const std::string& name, auto values) { writer.append(name, values); });
  writer.finish(describe(dataset));
}

std::string dataset_hash(const Dataset& dataset) {
  // One line for each array, hashed: independent of how the arrays are stored.
  std::string lines =
      fmt::format("nodes {} directed {} cols {} classes {}\n", dataset.graph.nodes,
                  dataset.graph.directed, dataset.features.cols, dataset.labels.classes);
  for_each_array(dataset, [&](const std::string& name, auto values) {
    using T = typename decltype(values)::value_type;
    lines += fmt::format("{} {} {} {}\n", name, dtype_name<T>(), values.size(),
                         hex64(xxh64(std::as_bytes(values))));
  });
  return hex64(xxh64(std::as_bytes(std::span(lines))));
}

}  // namespace heliograph
