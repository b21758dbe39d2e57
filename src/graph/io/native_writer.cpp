#include "graph/io/native_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/throw_error.hpp"
#include "graph/task_name.hpp"
#include "heliograph/io.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

/// Whether the writer could have made a file of this name.
bool is_own_name(std::string_view name) {
  if (name == kManifestFile || name == kManifestHashFile) return true;
  if (!name.ends_with(".bin")) return false;
  name.remove_suffix(4);
  if (name.starts_with("role_")) {
    return name.find_first_not_of("0123456789", 5) == std::string_view::npos;
  }
  using namespace native_array;
  constexpr std::array kOwn = {offsets,         neighbours,      edge_weights,   features,
                               feature_offsets, feature_columns, feature_values, class_of,
                               indicators,      labelled,        values};
  return std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end();
}

/// Whether the manifest is of a native directory: other programs write a manifest.json as well.
bool is_own_manifest(const fs::path& directory) {
  if (fs::exists(directory / kManifestHashFile)) return true;
  const auto file = MappedFile::open(directory / kManifestFile);
  return file->text().find(kNativeManifest.format) != std::string_view::npos;
}

}  // namespace

void check_native_target(const fs::path& directory, bool overwrite) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(directory, ignored);
  if (!fs::exists(status)) return;
  if (!overwrite) {
    throw_error(ErrorCode::usage, "{} exists already; use --overwrite to replace it",
                directory.string());
  }
  if (!fs::is_directory(status)) {
    throw_error(ErrorCode::usage, "{} is not replaced: it is not a directory", directory.string());
  }
  if (fs::is_empty(directory)) return;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (is_own_name(name) && fs::is_regular_file(entry.symlink_status())) continue;
    throw_error(ErrorCode::usage, "{} is not replaced: it holds {}, which is not part of a graph",
                directory.string(), name);
  }
  if (!fs::exists(directory / kManifestFile) && !fs::exists(directory / kManifestHashFile)) {
    throw_error(ErrorCode::usage, "{} is not replaced: it holds files but no {}",
                directory.string(), kManifestFile);
  }
  if (!is_own_manifest(directory)) {
    throw_error(ErrorCode::usage, "{} is not replaced: its {} is not the manifest of a graph",
                directory.string(), kManifestFile);
  }
}

NativeWriter::NativeWriter(fs::path directory, bool overwrite)
    : directory_(std::move(directory)), overwrite_(overwrite) {
  if (!directory_.has_filename()) directory_ = directory_.parent_path();
  if (directory_.empty()) throw Error(ErrorCode::usage, "the output directory has no name");
  check_native_target(directory_, overwrite_);
  made_.emplace(directory_);
}

void NativeWriter::append_bytes(std::string_view name, std::string_view dtype,
                                std::size_t item_bytes, std::span<const std::byte> bytes) {
  auto it = arrays_.find(name);
  if (it == arrays_.end()) {
    FileWriter file(made_->temporary() / fmt::format("{}.bin", name));
    it = arrays_.emplace(std::string(name), Growing{std::move(file), dtype, item_bytes}).first;
  }
  it->second.file.write(bytes);
}

void NativeWriter::check(const Dataset& dataset) const {
  const std::string where = directory_.string();
  std::size_t wanted = 0;
  for_each_array(dataset, [&]<class T>(std::string_view name, const Array<T>&, auto&& count) {
    const auto it = arrays_.find(name);
    if (it == arrays_.end()) {
      throw_error(ErrorCode::usage, "{}: array {} was not written", where, name);
    }
    const Growing& written = it->second;
    const std::int64_t most = count();
    const auto held = static_cast<std::int64_t>(written.file.size() / written.item_bytes);
    if (written.dtype != dtype_name<T>() || (most >= 0 && held != most)) {
      throw_error(ErrorCode::usage, "{}: array {} holds {} {} values, not {} {}", where, name, held,
                  written.dtype, most, dtype_name<T>());
    }
    ++wanted;
  });
  if (arrays_.size() != wanted) {
    throw_error(ErrorCode::usage, "{}: holds arrays that do not belong to its data set", where);
  }
}

void NativeWriter::write_manifest(const Dataset& dataset) {
  using nlohmann::ordered_json;
  ordered_json arrays = ordered_json::array();
  for_each_array(dataset, [&](std::string_view name, auto&&, auto&&) {
    const Growing& written = arrays_.find(name)->second;
    arrays.push_back({{"name", name},
                      {"file", fmt::format("{}.bin", name)},
                      {"dtype", written.dtype},
                      {"count", written.file.size() / written.item_bytes},
                      {"xxh64", hex64(written.file.hash())}});
  });
  const Features& features = dataset.features;
  const Labels& labels = dataset.labels;
  write_manifest_file(made_->temporary(),
                      {
                          {"format", kNativeManifest.format},
                          {"version", dataset.graph.edge_weights.empty() ? 1 : 2},
                          {"name", dataset.name},
                          {"nodes", dataset.graph.nodes},
                          {"directed", dataset.graph.directed},
                          {"features", {{"cols", features.cols}, {"sparse", features.sparse}}},
                          {"labels",
                           {{"task", task_name(labels.task)},
                            {"classes", labels.classes},
                            {"class_names", dataset.class_names}}},
                          {"splits", dataset.splits.size()},
                          {"arrays", arrays},
                      });
}

void NativeWriter::finish(const Dataset& dataset) {
  check(dataset);
  for (auto& [name, array] : arrays_) array.file.close();
  write_manifest(dataset);
  check_native_target(directory_, overwrite_);
  made_->publish();
}

}  // namespace heliograph
