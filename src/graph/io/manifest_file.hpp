#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

// manifest.json of a directory of graphs or shards, with its checksum in manifest.xxh64
// (docs/formats.md).

namespace heliograph {

inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kManifestHashFile = "manifest.xxh64";

/// The kind of manifest that a reader expects.
struct ManifestKind {
  std::string_view format;  ///< The value of the key "format".
  int oldest, newest;       ///< The values of the key "version" that are read.
  std::string_view of;      ///< What the manifest describes, for messages: "a graph".
  std::string_view use;     ///< What takes such a directory, for messages.
};

/// Version 2 has edge weights, which readers of version 1 would not see.
inline constexpr ManifestKind kNativeManifest{"heliograph-graph", 1, 2, "a graph",
                                              "load_dataset reads it"};
inline constexpr ManifestKind kShardManifest{
    "heliograph-shards", 4, 4, "shards",
    "train and eval take them on the command line, train_shards in the library"};

/// Writes manifest.json and then its checksum. Bytes that are not UTF-8, as in a file name, are
/// replaced. Throws as FileWriter does.
void write_manifest_file(const std::filesystem::path& directory,
                         const nlohmann::ordered_json& manifest);

/// Reads manifest.json and compares its checksum. Throws Error(bad_input) that names the file which
/// is missing, damaged or of another kind.
nlohmann::json read_manifest_file(const std::filesystem::path& directory, const ManifestKind& kind);

/// Throws Error(bad_input) with the text "FILE: WHAT".
[[noreturn]] void refuse_file(const std::filesystem::path& file, const std::string& what);

}  // namespace heliograph
