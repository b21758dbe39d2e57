#include "graph/io/manifest_file.hpp"

#include <nlohmann/json.hpp>
#include <span>

#include "graph/io/files.hpp"
#include "graph/io/json.hpp"
#include "graph/refuse.hpp"

namespace heliograph {

namespace fs = std::filesystem;

void refuse_file(const fs::path& file, const std::string& what) { refuse(file, "{}", what); }

void write_manifest_file(const fs::path& directory, const nlohmann::ordered_json& manifest) {
  const std::string text = json_text(manifest, 2) + "\n";
  const auto write = [&](std::string_view name, const std::string& content) {
    FileWriter file(directory / name);
    file.write(std::as_bytes(std::span(content)));
    file.close();
  };
  write(kManifestFile, text);
  write(kManifestHashFile, hex64(xxh64(std::as_bytes(std::span(text)))) + "\n");
}

nlohmann::json read_manifest_file(const fs::path& directory, const ManifestKind& kind) {
  const fs::path path = directory / kManifestFile;
  const fs::path hash_path = directory / kManifestHashFile;
  const auto file = MappedFile::open(path);
  const auto hash_file = MappedFile::open(hash_path);
  if (hash_file->text() != hex64(xxh64(file->bytes())) + "\n") {
    refuse(path, "does not match the checksum in {}: one of the two is damaged",
           hash_path.string());
  }
  if (nests_too_deeply(file->text())) refuse(path, "nests lists too deeply");
  nlohmann::json manifest = try_parse_json<nlohmann::json>(file->text());
  const nlohmann::json format =
      manifest.is_object() ? manifest.value("format", nlohmann::json()) : nlohmann::json();
  if (format != kind.format) {
    for (const ManifestKind& other : {kNativeManifest, kShardManifest}) {
      if (format != other.format) continue;
      refuse(path, "is the manifest of {}, not of {}; {}", other.of, kind.of, other.use);
    }
    refuse(path, "is not the manifest of {}", kind.of);
  }
  const nlohmann::json version = manifest.value("version", nlohmann::json());
  if (!version.is_number_integer() || version < kind.oldest || version > kind.newest) {
    const bool one = kind.oldest == kind.newest;
    refuse(path, "has format version {}; this build reads {}", json_text(version),
           one ? fmt::format("version {}", kind.newest)
               : fmt::format("versions {} to {}", kind.oldest, kind.newest));
  }
  return manifest;
}

}  // namespace heliograph
