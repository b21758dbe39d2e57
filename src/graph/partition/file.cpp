#include "graph/partition/file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/parse_number.hpp"
#include "core/plural.hpp"
#include "core/throw_error.hpp"
#include "graph/io/files.hpp"
#include "graph/io/from_one.hpp"
#include "graph/io/json.hpp"
#include "graph/io/npy.hpp"
#include "graph/io/text.hpp"
#include "heliograph/partition.hpp"

namespace heliograph {
namespace {

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view blanks = " \t\r";
  const auto begin = line.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(blanks) - begin + 1);
}

std::vector<std::int32_t> owners_of_lines(const std::filesystem::path& file) {
  const auto mapped = MappedFile::open(file);
  std::vector<std::int32_t> owners;
  std::string_view rest = mapped->text();
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const std::string_view text = trimmed(rest.substr(0, end));
    const auto owner = parse_plain_number<std::int32_t>(text);
    if (!owner) {
      throw_error(ErrorCode::bad_input, "partition file {}, line {}: '{}' is not a part number",
                  file.string(), owners.size() + 1, legible(text.substr(0, 40)));
    }
    owners.push_back(*owner);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return owners;
}

std::vector<std::int32_t> owners_of_array(const std::filesystem::path& file) {
  const NpyArray array = read_npy(file);
  if (array.shape.size() != 1) {
    throw_error(ErrorCode::bad_input, "partition file {}: its shape is {}, not (nodes,)",
                file.string(), array.shape_text());
  }
  return to_int32(array);
}

constexpr const char* kOtherParts =
    ": --parts must be the number of parts in the file; --partitioner metis needs no file";

/// Throws Error(bad_input) unless DGL's description of a partition says that it has `parts` parts.
void require_parts(const std::filesystem::path& meta, int parts) {
  const auto mapped = MappedFile::open(meta);
  const bool deep = nests_too_deeply(mapped->text());
  const auto object = deep ? nlohmann::json() : try_parse_json<nlohmann::json>(mapped->text());
  if (object.is_object() && object.value("num_parts", nlohmann::json()) == parts) return;
  throw_error(ErrorCode::bad_input, "partition file {}: its num_parts is not {}{}", meta.string(),
              parts, spell_options(kOtherParts));
}

}  // namespace

PartitionFile partition_file(const std::filesystem::path& file) {
  if (file.extension() == ".npy") return {PartitionForm::array, file};
  if (file.filename() == kDglMeta) {
    return {PartitionForm::dgl, std::filesystem::path(file).replace_filename("_N.txt")};
  }
  return {PartitionForm::lines, file};
}

Partition read_partition(const std::filesystem::path& path, std::int64_t nodes, int parts) {
  if (parts < 1) throw_error(ErrorCode::usage, "--parts {}: at least 1 is needed", parts);
  const auto [form, file] = partition_file(path);
  if (form == PartitionForm::dgl) require_parts(path, parts);
  const bool array = form == PartitionForm::array;
  if (!is_there(file)) {
    throw_error(ErrorCode::bad_input, "partition file {} does not exist{}", file.string(),
                spell_options("; --partitioner metis needs no file"));
  }
  Partition partition{parts, array ? owners_of_array(file) : owners_of_lines(file)};
  std::vector<bool> used(static_cast<std::size_t>(parts), false);
  for (std::size_t i = 0; i < partition.owner.size(); ++i) {
    const std::int32_t owner = partition.owner[i];
    if (owner < 0 || owner >= parts) {
      throw_error(ErrorCode::bad_input, "partition file {}, {} {}: part {} is out of range of {}{}",
                  file.string(), array ? "node" : "line", array ? i : i + 1, owner,
                  counted(parts, "part"),
                  fits_from_one(partition.owner, parts) ? from_one_hint(true, "ranks")
                                                        : spell_options(kOtherParts));
    }
    used[static_cast<std::size_t>(owner)] = true;
  }
  if (static_cast<std::int64_t>(partition.owner.size()) != nodes) {
    throw_error(ErrorCode::bad_input, "partition file {} has {} {} but the graph has {} nodes{}",
                file.string(), partition.owner.size(), array ? "entries" : "lines", nodes,
                spell_options("; --partitioner metis needs no file"));
  }
  const auto empty = std::find(used.begin(), used.end(), false);
  if (empty != used.end()) {
    throw_error(ErrorCode::bad_input, "partition file {} leaves part {} of {} empty{}",
                file.string(), empty - used.begin(), parts, spell_options(kOtherParts));
  }
  return partition;
}

void write_partition(const Partition& partition, const std::filesystem::path& path) {
  const auto [form, file] = partition_file(path);
  if (form == PartitionForm::array) {
    write_npy(file, partition.owner, std::ssize(partition.owner), 1);
    return;
  }
  std::string text;
  text.reserve(partition.owner.size() * 3);
  for (const std::int32_t owner : partition.owner) {
    text += std::to_string(owner);
    text += '\n';
  }
  write_file_atomically(file, std::as_bytes(std::span(text)));
  if (form == PartitionForm::lines) return;
  // DGL takes the algorithms "metis" and "random" and uses only the number of parts.
  const std::string meta = fmt::format(
      "{{\"algo_name\": \"metis\", \"num_parts\": {}, \"version\": \"1.0.0\"}}\n", partition.parts);
  write_file_atomically(path, std::as_bytes(std::span(meta)));
}

std::string partition_hash(const Partition& partition) {
  std::vector<std::int32_t> words{partition.parts};
  words.insert(words.end(), partition.owner.begin(), partition.owner.end());
  return hex64(xxh64(std::as_bytes(std::span(words))));
}

}  // namespace heliograph
