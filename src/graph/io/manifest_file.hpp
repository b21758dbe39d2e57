#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

// manifest.json of a directory of graphs or shards, with its checksum in manifest.xxh64
// (docs/formats.md).

namespace heliograph {

inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kManifestHashFile = "manifest.xxh64";

/// What a manifest has to be.
struct ManifestKind {
  std::string_view format;  ///< Its field "format".
  int version;              ///< Its field "version".
  std::string_view of;      ///< "a graph", for messages.
};

/// Writes both files, the checksum last. Text that is not UTF-8 (a file name may be anything) is
/// written with replacements. Throws as FileWriter does.
void write_manifest_file(const std::filesystem::path& directory,
                         const nlohmann::ordered_json& manifest);

/// Throws Error(bad_input) that names the file which is missing, damaged or of another kind.
nlohmann::json read_manifest_file(const std::filesystem::path& directory, const ManifestKind& kind);

/// Throws Error(bad_input): "FILE: WHAT".
[[noreturn]] void refuse_file(const std::filesystem::path& file, const std::string& what);

}  // namespace heliograph
