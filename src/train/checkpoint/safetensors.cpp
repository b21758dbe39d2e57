#include "train/checkpoint/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/throw_error.hpp"
#include "graph/io/json.hpp"

namespace heliograph {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kTensorAlign = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // As other readers of the format.
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kText = "model";
constexpr const char* kHeaderChecksum = "xxh64";

std::string checksum_key(const std::string& name) { return "xxh64." + name; }

/// Whether a tensor of `shape` has `count` elements; a damaged shape may have more than 2^64.
bool has_elements(const std::vector<std::uint64_t>& shape, std::uint64_t count) {
  std::uint64_t product = 1;
  for (const std::uint64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product)) return false;
  }
  return product == count;
}

/// Parses JSON without what is nested deeper than a header is, which could overflow the stack.
/// Returns a discarded value if `text` is no JSON.
ordered_json parse_flat(std::string_view text) {
  constexpr int most_levels = 8;
  return try_parse_json<ordered_json>(text, [](int depth, ordered_json::parse_event_t,
                                               ordered_json&) { return depth <= most_levels; });
}

/// The checksum of a header without kHeaderChecksum.
std::string checksum_of(const ordered_json& header) {
  const std::string text = json_text(header);
  return hex64(xxh64(std::as_bytes(std::span<const char>(text))));
}

}  // namespace

FileRecord write_safetensors(std::unique_ptr<FileSink> sink, const SafetensorsContents& contents) {
  ordered_json metadata{{"producer", "heliograph"}};
  if (!contents.text.empty()) metadata[kText] = contents.text;
  ordered_json header;
  header[kMetadata] = ordered_json::object();
  std::uint64_t end = 0;
  for (const Tensor& t : contents.tensors) {
    const auto bytes = std::as_bytes(std::span(t.values));
    const std::uint64_t begin = end;
    end += bytes.size();
    header[t.name] = {{"dtype", "F32"}, {"shape", t.shape}, {"data_offsets", {begin, end}}};
    metadata[checksum_key(t.name)] = hex64(xxh64(bytes));
  }
  header[kMetadata] = std::move(metadata);
  const std::string checksum = checksum_of(header);
  header[kMetadata][kHeaderChecksum] = checksum;
  std::string text = json_text(header);
  text.append((kTensorAlign - text.size() % kTensorAlign) % kTensorAlign, ' ');
  const std::uint64_t header_bytes = text.size();
  sink->write(std::as_bytes(std::span(&header_bytes, 1)));
  sink->write(std::as_bytes(std::span<const char>(text)));
  for (const Tensor& t : contents.tensors) sink->write(std::as_bytes(std::span(t.values)));
  sink->close();
  return {sink->size(), sink->hash()};
}

SafetensorsContents read_safetensors(const std::filesystem::path& path, const FileRecord* record) {
  const auto file = MappedFile::open(path);
  const std::span<const std::byte> all = file->bytes();
  const auto check = [&](bool holds, const std::string& what) {
    if (!holds) throw_error(ErrorCode::bad_input, "{}: {}", path.string(), what);
  };
  std::uint64_t header_bytes = 0;
  check(all.size() >= sizeof(header_bytes), "is cut off within the header's length");
  std::memcpy(&header_bytes, all.data(), sizeof(header_bytes));
  const auto rest = all.subspan(sizeof(header_bytes));
  check(rest.empty() || rest.front() == std::byte{'{'},
        "is no .safetensors file, or its header is damaged");
  check(header_bytes <= rest.size(), "is cut off within the header, or its length is damaged");
  check(header_bytes <= kMostHeaderBytes, "the header is longer than 100 MB");
  const std::string_view text(reinterpret_cast<const char*>(rest.data()), header_bytes);
  const auto data = rest.subspan(header_bytes);
  ordered_json header = parse_flat(text);
  check(!text.empty() && text.front() == '{' && header.is_object() && header.contains(kMetadata),
        "the header is damaged: it is not the JSON of a safetensors file with metadata");
  check(header.at(kMetadata).is_object() && header.at(kMetadata).contains(kText),
        "holds no model of Heliograph: the header's metadata lack it");
  SafetensorsContents contents;
  try {
    std::uint64_t end = 0;
    ordered_json& metadata = header.at(kMetadata);
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadata) continue;
      const auto begin_at = entry.at("data_offsets").at(0).get<std::uint64_t>();
      const auto end_at = entry.at("data_offsets").at(1).get<std::uint64_t>();
      const auto shape = entry.at("shape").get<std::vector<std::uint64_t>>();
      const std::string field = fmt::format("tensor {}", name);
      check(entry.at("dtype") == "F32" && begin_at == end && end_at >= begin_at &&
                (end_at - begin_at) % sizeof(float) == 0 &&
                has_elements(shape, (end_at - begin_at) / sizeof(float)),
            fmt::format("the header's entry of {} is damaged", field));
      check(end_at <= data.size(), fmt::format("is cut off within {}", field));
      end = end_at;
      const auto bytes = data.subspan(begin_at, end_at - begin_at);
      check(metadata.at(checksum_key(name)) == hex64(xxh64(bytes)),
            fmt::format("{} is damaged: it does not match its checksum in the header", field));
      Tensor& tensor = contents.tensors.emplace_back(Tensor{name, shape, {}});
      tensor.values.resize(bytes.size() / sizeof(float));
      std::ranges::copy(bytes, std::as_writable_bytes(std::span(tensor.values)).begin());
    }
    check(end == data.size(), fmt::format("has {} bytes behind its tensors", data.size() - end));
    contents.text = metadata.at(kText).get<std::string>();
    const auto checksum = metadata.at(kHeaderChecksum).get<std::string>();
    metadata.erase(kHeaderChecksum);
    check(checksum == checksum_of(header), "the header is damaged: it does not match its checksum");
  } catch (const ordered_json::exception& error) {
    check(false, fmt::format("the header is damaged: {}", reason_of(error)));
  }
  if (record == nullptr) return contents;
  check(all.size() == record->bytes,
        fmt::format("is {} bytes long; the manifest says {}", all.size(), record->bytes));
  check(xxh64(all) == record->xxh64,
        "the header does not match the file's checksum in the manifest: it is damaged, or belongs "
        "to another checkpoint");
  return contents;
}

}  // namespace heliograph
