#include "train/checkpoint/safetensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/throw_error.hpp"

namespace heliograph {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kTensorAlign = 8;
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kProducer = "heliograph";

std::string checksum_key(const std::string& name) { return "xxh64." + name; }

/// The number of elements; unsigned, because that of a damaged shape may overflow.
std::uint64_t elements(const std::vector<std::uint64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : shape) count *= extent;
  return count;
}

}  // namespace

FileRecord write_safetensors(std::unique_ptr<FileSink> sink, std::span<const NamedTensor> tensors) {
  ordered_json metadata{{"producer", kProducer}};
  ordered_json header;
  header[kMetadata] = ordered_json::object();
  std::uint64_t end = 0;
  for (const NamedTensor& t : tensors) {
    const std::uint64_t begin = end;
    end += t.values.size_bytes();
    header[t.name] = {{"dtype", "F32"}, {"shape", t.shape}, {"data_offsets", {begin, end}}};
    metadata[checksum_key(t.name)] = hex64(xxh64(std::as_bytes(t.values)));
  }
  header[kMetadata] = std::move(metadata);
  std::string text = header.dump();
  text.append((kTensorAlign - text.size() % kTensorAlign) % kTensorAlign, ' ');
  const std::uint64_t header_bytes = text.size();
  sink->write(std::as_bytes(std::span(&header_bytes, 1)));
  sink->write(std::as_bytes(std::span<const char>(text)));
  for (const NamedTensor& t : tensors) sink->write(std::as_bytes(t.values));
  sink->close();
  return {sink->size(), sink->hash()};
}

Safetensors::Safetensors(std::filesystem::path path, const FileRecord& record)
    : path_(std::move(path)), file_(MappedFile::open(path_)) {
  const std::span<const std::byte> all = file_->bytes();
  const auto check = [this](bool holds, const std::string& what) {
    if (!holds) throw_error(ErrorCode::bad_input, "{}: {}", path_.string(), what);
  };
  std::uint64_t header_bytes = 0;
  check(all.size() >= sizeof(header_bytes), "is cut off within the header's length");
  std::memcpy(&header_bytes, all.data(), sizeof(header_bytes));
  const auto rest = all.subspan(sizeof(header_bytes));
  check(header_bytes <= rest.size(), "is cut off within the header, or its length is damaged");
  const std::string_view text(reinterpret_cast<const char*>(rest.data()), header_bytes);
  const auto data = rest.subspan(header_bytes);
  const ordered_json header = ordered_json::parse(text, nullptr, false);
  check(!text.empty() && text.front() == '{' && header.is_object() && header.contains(kMetadata),
        "the header is damaged: it is not the JSON of a safetensors file");
  try {
    std::uint64_t end = 0;
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadata) continue;
      const auto begin_at = entry.at("data_offsets").at(0).get<std::uint64_t>();
      const auto end_at = entry.at("data_offsets").at(1).get<std::uint64_t>();
      const auto shape = entry.at("shape").get<std::vector<std::uint64_t>>();
      const std::string field = fmt::format("tensor {}", name);
      check(entry.at("dtype") == "F32" && begin_at == end && end_at >= begin_at &&
                (end_at - begin_at) % sizeof(float) == 0 &&
                elements(shape) == (end_at - begin_at) / sizeof(float),
            fmt::format("the header's entry of {} is damaged", field));
      check(end_at <= data.size(), fmt::format("is cut off within {}", field));
      end = end_at;
      const auto bytes = data.subspan(begin_at, end_at - begin_at);
      check(header.at(kMetadata).at(checksum_key(name)) == hex64(xxh64(bytes)),
            fmt::format("{} is damaged: it does not match its checksum in the header", field));
      tensors_.push_back({name, shape, bytes});
    }
    check(end == data.size(), fmt::format("has {} bytes behind its tensors", data.size() - end));
  } catch (const ordered_json::exception& error) {
    check(false, fmt::format("the header is damaged: {}", error.what()));
  }
  check(all.size() == record.bytes,
        fmt::format("is {} bytes long; the manifest says {}", all.size(), record.bytes));
  check(xxh64(all) == record.xxh64,
        "the header does not match the file's checksum in the manifest: it is damaged, or belongs "
        "to another checkpoint");
}

void Safetensors::load(std::span<const NamedTensor> into) const {
  const auto refuse = [this](const std::string& what) {
    throw_error(ErrorCode::mismatch, "{}: {}", path_.string(), what);
  };
  for (const Stored& stored : tensors_) {
    const auto target = std::ranges::find(into, stored.name, &NamedTensor::name);
    if (target == into.end()) refuse(fmt::format("the model has no tensor {}", stored.name));
    if (target->shape != stored.shape) {
      refuse(fmt::format("tensor {} is {}; this model and data set need {}", stored.name,
                         fmt::join(stored.shape, " x "), fmt::join(target->shape, " x ")));
    }
  }
  const auto find = [this](const NamedTensor& t) {
    return std::ranges::find(tensors_, t.name, &Stored::name);
  };
  for (const NamedTensor& t : into) {
    if (find(t) == tensors_.end()) refuse(fmt::format("tensor {} is missing", t.name));
  }
  for (const NamedTensor& t : into) {
    const std::span<const std::byte> stored = find(t)->bytes;
    std::memcpy(t.values.data(), stored.data(), stored.size());
  }
}

}  // namespace heliograph
