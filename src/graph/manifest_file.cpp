#include "graph/manifest_file.hpp"

#include <fmt/format.h>

#include <span>

#include "graph/files.hpp"
#include "heliograph/error.hpp"

namespace heliograph {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

void refuse_file(const fs::path& file, const std::string& what) {
  throw Error(ErrorCode::bad_input, fmt::format("{}: {}", file.string(), what));
}

void write_manifest_file(const fs::path& directory, const ordered_json& manifest) {
  const std::string text =
      manifest.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  const auto bytes = std::as_bytes(std::span(text));
  FileWriter file(directory / kManifestFile);
  file.write(bytes);
  file.close();
  const std::string digits = hex64(xxh64(bytes)) + "\n";
  FileWriter hash_file(directory / kManifestHashFile);
  hash_file.write(std::as_bytes(std::span(digits)));
  hash_file.close();
}

json read_manifest_file(const fs::path& directory, const ManifestKind& kind) {
  const fs::path path = directory / kManifestFile;
  const fs::path hash_path = directory / kManifestHashFile;
  const auto file = MappedFile::open(path);
  const auto hash_file = MappedFile::open(hash_path);
  const auto text = [](const MappedFile& mapped) {
    return std::string_view(reinterpret_cast<const char*>(mapped.bytes().data()),
                            mapped.bytes().size());
  };
  if (text(*hash_file) != hex64(xxh64(file->bytes())) + "\n") {
    refuse_file(path, fmt::format("does not match the checksum in {}: one of the two is damaged",
                                  hash_path.string()));
  }
  json manifest = json::parse(text(*file), nullptr, false);
  if (!manifest.is_object() || manifest.value("format", json()) != kind.format) {
    refuse_file(path, fmt::format("is not the manifest of {}", kind.of));
  }
  if (const json version = manifest.value("version", json()); version != kind.version) {
    refuse_file(path, fmt::format("has format version {}; this build reads version {}",
                                  version.dump(), kind.version));
  }
  return manifest;
}

}  // namespace heliograph
