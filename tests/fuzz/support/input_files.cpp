#include "fuzz/support/input_files.hpp"

#include <zip.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>

#include "graph/io/files.hpp"

namespace heliograph::fuzz {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMark = "@@ ";
constexpr std::size_t kMostFiles = 64, kLongestName = 100;

/// A folder in memory, where there is one, that is removed at the end of the process.
struct Root {
  fs::path path;
  Root() {
    const char* const named = std::getenv("TMPDIR");
    const fs::path parent = named != nullptr         ? fs::path(named)
                            : fs::exists("/dev/shm") ? fs::path("/dev/shm")
                                                     : fs::temp_directory_path();
    std::string name = (parent / "heliograph-fuzz-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create " + name);
    path = name;
  }
  ~Root() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

bool is_allowed(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::strchr("._+-/", c) != nullptr;
  };
  return !name.empty() && name.size() <= kLongestName && name.front() != '/' &&
         name.back() != '/' && name.find("..") == std::string_view::npos &&
         name.find("//") == std::string_view::npos && std::ranges::all_of(name, fits);
}

/// "X" and "Y/Z" of "X.EXTENSION/Y/Z", as "X.EXTENSION" and "Y/Z".
std::optional<std::pair<std::string, std::string>> part_of(const std::string& name,
                                                           const std::string& extension) {
  const std::size_t at = name.find(extension + "/");
  if (at == std::string::npos) return std::nullopt;
  const std::size_t end = at + extension.size();
  return std::pair(name.substr(0, end), name.substr(end + 1));
}

void append(std::string& out, std::uint64_t number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void pad(std::string& out) { out.append((8 - out.size() % 8) % 8, '\0'); }

/// A section of a state file, with its checksum.
std::string section(const std::string& name, const std::string& payload) {
  std::string header;
  append(header, name.size());
  append(header, payload.size());
  header += name;
  pad(header);
  RunningHash hash(xxh64(bytes_of(header)));
  hash.add(bytes_of(payload));
  std::string out = header + payload;
  pad(out);
  append(out, hash.value());
  return out;
}

/// A safetensors file. Its checksums are right if the header is JSON that names the tensors.
std::string safetensors(std::string header, const std::string& data) {
  auto object = nlohmann::ordered_json::parse(header, nullptr, false);
  if (object.is_object() && object.contains("__metadata__") &&
      object.at("__metadata__").is_object()) {
    auto& metadata = object.at("__metadata__");
    for (const auto& [name, entry] : object.items()) {
      if (!entry.is_object() || !entry.contains("data_offsets")) continue;
      const auto& offsets = entry.at("data_offsets");
      if (offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
          !offsets[1].is_number_unsigned()) {
        continue;
      }
      const auto begin = offsets[0].get<std::size_t>(), end = offsets[1].get<std::size_t>();
      if (begin > end || end > data.size()) continue;
      metadata["xxh64." + name] = hex64(xxh64(bytes_of(data).subspan(begin, end - begin)));
    }
    metadata.erase("xxh64");
    const std::string text = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    metadata["xxh64"] = hex64(xxh64(bytes_of(text)));
    header = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  std::string out;
  append(out, header.size());
  return out + header + data;
}

/// Adds a member to an archive, and makes it if it is not there.
void add_to_archive(const fs::path& path, const std::string& name, const std::string& bytes) {
  zip_t* const zip = zip_open(path.c_str(), ZIP_CREATE, nullptr);
  if (zip == nullptr) return;  // It has been written as a file that is no archive.
  zip_source_t* const source = zip_source_buffer(zip, bytes.data(), bytes.size(), 0);
  const zip_int64_t at = zip_file_add(zip, name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (at < 0) {  // The name occurs twice.
    zip_source_free(source);
    zip_discard(zip);
    return;
  }
  zip_set_file_compression(zip, static_cast<zip_uint64_t>(at), ZIP_CM_STORE, 0);
  if (zip_close(zip) != 0) zip_discard(zip);
}

}  // namespace

InputFiles::InputFiles(const std::uint8_t* data, std::size_t size) {
  static const Root root;
  folder_ = root.path / "input";
  fs::create_directories(folder_);
  valid_ = parse({reinterpret_cast<const char*>(data), size});
  if (!valid_) return;
  for (File& file : files_) {
    if (file.name == "options") {
      options_ = file.bytes;
    } else {
      write(file.name, file.bytes);
    }
  }
}

InputFiles::~InputFiles() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

bool InputFiles::parse(std::string_view input) {
  if (!input.starts_with(kMark)) return false;
  while (!input.empty()) {
    const std::size_t line_end = std::min(input.find('\n'), input.size() - 1);
    const std::string name(input.substr(kMark.size(), line_end - kMark.size()));
    if (!is_allowed(name) || files_.size() == kMostFiles) return false;
    input.remove_prefix(line_end + 1);
    const std::size_t end = std::min(input.find(kMark), input.size());
    files_.push_back({name, std::string(input.substr(0, end))});
    input.remove_prefix(end);
  }
  return true;
}

void InputFiles::write(const std::string& name, std::string bytes) {
  for (std::size_t at = bytes.find("{{"); at != std::string::npos; at = bytes.find("{{", at + 1)) {
    const std::size_t end = bytes.find("}}", at);
    if (end == std::string::npos) break;
    const std::string what = bytes.substr(at + 2, end - at - 2);
    const auto name_after = [&](std::string_view word) -> std::optional<fs::path> {
      if (!what.starts_with(word) || !is_allowed(what.substr(word.size()))) return std::nullopt;
      const fs::path path = folder_ / what.substr(word.size());
      if (!fs::is_regular_file(path)) return std::nullopt;
      return path;
    };
    std::string value;
    if (what == "xxh64") {
      value = hex64(xxh64(bytes_of(bytes.substr(0, bytes.rfind(',', at)))));
    } else if (const auto sized = name_after("bytes ")) {
      value = std::to_string(fs::file_size(*sized));
    } else if (const auto hashed = name_after("xxh64 ")) {
      value = hex64(xxh64(MappedFile::open(*hashed)->bytes()));
    } else {
      continue;
    }
    bytes.replace(at, end + 2 - at, value);
  }
  const auto put = [&](const std::string& to, const std::string& content) {
    const fs::path path = folder_ / to;
    if (first_.empty()) first_ = path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);  // A file may have the folder's name.
    std::ofstream(path, std::ios::binary) << content;
  };
  const auto others = [&](const std::string& whole, const auto& use) {
    for (const File& file : files_) {
      if (file.name.starts_with(whole + "/")) use(file.name.substr(whole.size() + 1), file.bytes);
    }
  };
  if (const auto archive = part_of(name, ".npz")) {
    const fs::path path = folder_ / archive->first;
    if (first_.empty()) first_ = path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    add_to_archive(path, archive->second, bytes);
  } else if (const auto state = part_of(name, ".state")) {
    std::string content = "HGSTATE1";
    others(state->first, [&](const std::string& part, const std::string& payload) {
      content += section(part, payload);
    });
    put(state->first, content + section("end", ""));
  } else if (const auto weights = part_of(name, ".safetensors")) {
    std::string header, data;
    others(weights->first, [&](const std::string& part, const std::string& content) {
      (part == "header" ? header : data) = content;
    });
    put(weights->first, safetensors(header, data));
  } else {
    put(name, bytes);
  }
}

}  // namespace heliograph::fuzz
