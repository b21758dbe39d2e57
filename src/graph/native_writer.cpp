#include "graph/native_writer.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "heliograph/error.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

/// Could a file of this name be one that the writer makes?
bool is_own_name(std::string_view name) {
  if (name == kManifestFile || name == kManifestHashFile) return true;
  if (!name.ends_with(".bin")) return false;
  name.remove_suffix(4);
  if (name.starts_with("role_")) {
    return name.find_first_not_of("0123456789", 5) == std::string_view::npos;
  }
  using namespace native_array;
  for (const std::string_view own :
       {offsets, neighbours, features, feature_offsets, feature_columns, feature_values, class_of,
        indicators, labelled}) {
    if (name == own) return true;
  }
  return false;
}

/// Other programs have a manifest.json too.
bool is_own_manifest(const fs::path& directory) {
  if (fs::exists(directory / kManifestHashFile)) return true;
  const auto file = MappedFile::open(directory / kManifestFile);
  const auto bytes = file->bytes();
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())
             .find(kNativeManifest.format) != std::string_view::npos;
}

/// Refuses to replace what is there, unless that is asked for and harmless.
void check_target(const fs::path& directory, bool overwrite) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(directory, ignored);
  if (!fs::exists(status)) return;
  if (!overwrite) {
    throw Error(ErrorCode::usage, fmt::format("{} exists already; say --overwrite to replace it",
                                              directory.string()));
  }
  if (!fs::is_directory(status)) {
    throw Error(ErrorCode::usage,
                fmt::format("{} is not a directory: it is not replaced", directory.string()));
  }
  if (fs::is_empty(directory)) return;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (is_own_name(name) && fs::is_regular_file(entry.symlink_status())) continue;
    throw Error(ErrorCode::usage,
                fmt::format("{} holds {}, which is no part of a graph: it is not replaced",
                            directory.string(), name));
  }
  if (!fs::exists(directory / kManifestFile) && !fs::exists(directory / kManifestHashFile)) {
    throw Error(ErrorCode::usage, fmt::format("{} holds files but no {}: it is not replaced",
                                              directory.string(), kManifestFile));
  }
  if (!is_own_manifest(directory)) {
    throw Error(ErrorCode::usage,
                fmt::format("{} holds a {} that is not of a graph: it is not replaced",
                            directory.string(), kManifestFile));
  }
}

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    const bool full = error.value() == ENOSPC || error.value() == EDQUOT;
    throw Error(full ? ErrorCode::resource : ErrorCode::usage,
                fmt::format("cannot create {}: {}", path.string(), error.message()));
  }
}

}  // namespace

NativeWriter::NativeWriter(fs::path directory, bool overwrite)
    : directory_(std::move(directory)), overwrite_(overwrite) {
  if (!directory_.has_filename()) directory_ = directory_.parent_path();
  if (directory_.empty()) throw Error(ErrorCode::usage, "the output directory has no name");
  check_target(directory_, overwrite_);
  made_.emplace(directory_);
  make_directories(made_->temporary());
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

void NativeWriter::check(const NativeManifest& manifest) const {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::usage, fmt::format("{}: {}", directory_.string(), what));
  };
  const std::vector<NativeArray> wanted = native_arrays(manifest);
  for (const NativeArray& array : wanted) {
    const auto it = arrays_.find(array.name);
    if (it == arrays_.end()) refuse(fmt::format("array {} was not written", array.name));
    const Growing& written = it->second;
    const auto count = static_cast<std::int64_t>(written.file.size() / written.item_bytes);
    if (written.dtype != array.dtype || (array.count >= 0 && count != array.count)) {
      refuse(fmt::format("array {} holds {} {} values, not {} {}", array.name, count, written.dtype,
                         array.count, array.dtype));
    }
  }
  if (arrays_.size() != wanted.size()) refuse("holds arrays that its manifest does not ask for");
}

void NativeWriter::write_manifest(const NativeManifest& manifest) {
  using nlohmann::ordered_json;
  ordered_json arrays = ordered_json::array();
  for (const NativeArray& array : native_arrays(manifest)) {
    const Growing& written = arrays_.find(array.name)->second;
    arrays.push_back({{"name", array.name},
                      {"file", array.name + ".bin"},
                      {"dtype", written.dtype},
                      {"count", written.file.size() / written.item_bytes},
                      {"xxh64", hex64(written.file.hash())}});
  }
  const bool multilabel = manifest.task == Task::multilabel;
  write_manifest_file(
      made_->temporary(),
      {
          {"format", kNativeManifest.format},
          {"version", kNativeManifest.version},
          {"name", manifest.name},
          {"nodes", manifest.nodes},
          {"directed", manifest.directed},
          {"features", {{"cols", manifest.feature_cols}, {"sparse", manifest.sparse_features}}},
          {"labels",
           {{"task", multilabel ? "multilabel" : "multiclass"},
            {"classes", manifest.classes},
            {"class_names", manifest.class_names}}},
          {"splits", manifest.splits},
          {"arrays", arrays},
      });
}

void NativeWriter::finish(const NativeManifest& manifest) {
  check(manifest);
  for (auto& [name, array] : arrays_) array.file.close();
  write_manifest(manifest);
  check_target(directory_, overwrite_);
  made_->publish();
}

}  // namespace heliograph
