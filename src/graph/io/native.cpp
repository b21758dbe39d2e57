#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "graph/io/files.hpp"
#include "graph/io/json.hpp"
#include "graph/io/native_format.hpp"
#include "graph/io/native_writer.hpp"
#include "graph/io/readers.hpp"
#include "graph/refuse.hpp"
#include "graph/task_name.hpp"
#include "heliograph/io.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

/// The whole number under `key`. Refuses one that T cannot hold, which get<T> would truncate.
template <class T>
T whole_number(const nlohmann::json& object, const char* key, const fs::path& path) {
  const nlohmann::json& value = object.at(key);
  const bool held = value.is_number_unsigned()
                        ? std::in_range<T>(value.get<std::uint64_t>())
                        : value.is_number_integer() && std::in_range<T>(value.get<std::int64_t>());
  if (!held) {
    refuse(path,
           "cannot be interpreted: {} is {}, which is not a whole number of {} "
           "bits",
           key, json_text(value), 8 * sizeof(T));
  }
  return value.get<T>();
}

/// The data set that a manifest describes, without its arrays and splits.
Dataset dataset_of(const nlohmann::json& object, const fs::path& path) {
  Dataset dataset;
  dataset.name = object.at("name").get<std::string>();
  dataset.graph.nodes = whole_number<std::int64_t>(object, "nodes", path);
  dataset.graph.directed = object.at("directed").get<bool>();
  dataset.features.rows = dataset.graph.nodes;
  dataset.features.cols = whole_number<std::int64_t>(object.at("features"), "cols", path);
  dataset.features.sparse = object.at("features").at("sparse").get<bool>();
  const nlohmann::json& labels = object.at("labels");
  const auto name = labels.at("task").get<std::string>();
  const std::optional<Task> task = find_task(name);
  if (!task) refuse(path, "has the unknown task {}", name);
  dataset.labels.task = *task;
  dataset.labels.classes = whole_number<std::int32_t>(labels, "classes", path);
  dataset.class_names = labels.at("class_names").get<std::vector<std::string>>();
  return dataset;
}

/// Maps the arrays that the manifest lists and compares each with its count and checksum.
class ArrayFiles {
 public:
  ArrayFiles(fs::path directory, const nlohmann::json& arrays) : directory_(std::move(directory)) {
    for (const nlohmann::json& entry : arrays) {
      listed_[entry.at("name").get<std::string>()] = entry;
    }
  }

  bool list(std::string_view name) const { return listed_.contains(std::string(name)); }

  template <class T>
  Array<T> map(std::string_view name) const {
    const auto it = listed_.find(std::string(name));
    if (it == listed_.end()) refuse(directory_ / kManifestFile, "does not list the array {}", name);
    const nlohmann::json& entry = it->second;
    if (entry.at("dtype").get<std::string>() != dtype_name<T>()) {
      refuse(directory_ / kManifestFile, "gives the array {} another dtype than {}", name,
             dtype_name<T>());
    }
    const fs::path path = directory_ / entry.at("file").get<std::string>();
    const auto count = entry.at("count").get<std::uint64_t>();
    auto file = MappedFile::open(path);
    const std::span<const std::byte> bytes = file->bytes();
    if (bytes.size() / sizeof(T) != count || bytes.size() % sizeof(T) != 0) {
      refuse(path, "is damaged: {} bytes instead of {} values of {} bytes", bytes.size(), count,
             sizeof(T));
    }
    if (hex64(xxh64(bytes)) != entry.at("xxh64").get<std::string>()) {
      refuse(path, "is damaged: its bytes do not match the checksum in the manifest");
    }
    return {std::span(reinterpret_cast<const T*>(bytes.data()), count), std::move(file)};
  }

 private:
  fs::path directory_;
  std::map<std::string, nlohmann::json> listed_;
};

}  // namespace

bool is_native(const fs::path& directory) {
  return fs::exists(directory / kManifestFile) || fs::exists(directory / kManifestHashFile);
}

Dataset load_native(const fs::path& directory) {
  const nlohmann::json object = read_manifest_file(directory, kNativeManifest);
  const fs::path path = directory / kManifestFile;
  try {
    Dataset dataset = dataset_of(object, path);
    const auto splits = whole_number<std::int64_t>(object, "splits", path);
    const ArrayFiles files(directory, object.at("arrays"));
    for_each_array(dataset, [&]<class T>(std::string_view name, Array<T>& array, auto&&) {
      array = files.map<T>(name);
    });
    if (files.list(native_array::edge_weights)) {
      dataset.graph.edge_weights = files.map<float>(native_array::edge_weights);
    }
    for (std::int64_t s = 0; s < splits; ++s) {
      dataset.splits.push_back({files.map<Role>(native_array::role(s))});
    }
    return dataset;
  } catch (const nlohmann::json::exception& error) {  // A key is missing or has another type.
    refuse(path, "cannot be interpreted: {}", reason_of(error));
  }
}

void save_native(const Dataset& dataset, const fs::path& directory, bool overwrite) {
  validate(dataset);
  NativeWriter writer(directory, overwrite);
  for_each_array(dataset, [&](std::string_view name, const auto& array, auto&&) {
    writer.append(name, array.span());
  });
  writer.finish(dataset);
}

std::string dataset_hash(const Dataset& dataset) {
  // The hash of one line for each array does not depend on how the arrays are stored.
  std::string lines =
      fmt::format("nodes {} directed {} cols {} classes {}\n", dataset.graph.nodes,
                  dataset.graph.directed, dataset.features.cols, dataset.labels.classes);
  for_each_array(dataset, [&]<class T>(std::string_view name, const Array<T>& array, auto&&) {
    lines += fmt::format("{} {} {} {}\n", name, dtype_name<T>(), array.size(),
                         hex64(xxh64(std::as_bytes(array.span()))));
  });
  return hex64(xxh64(std::as_bytes(std::span(lines))));
}

}  // namespace heliograph
