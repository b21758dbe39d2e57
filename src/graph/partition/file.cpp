#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/parse_number.hpp"
#include "core/plural.hpp"
#include "core/throw_error.hpp"
#include "graph/io/files.hpp"
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

std::int32_t parse_owner(std::string_view line, const std::filesystem::path& file,
                         std::int64_t number, int parts) {
  const std::string_view text = trimmed(line);
  const auto number_read = parse_plain_number<std::int32_t>(text);
  if (!number_read) {
    throw_error(ErrorCode::bad_input, "partition file {}, line {}: '{}' is not a part number",
                file.string(), number, legible(text.substr(0, 40)));
  }
  const std::int32_t owner = *number_read;
  if (owner < 0 || owner >= parts) {
    throw_error(ErrorCode::bad_input,
                "partition file {}, line {}: part {} is out of range of {}: --parts must be "
                "the number of parts in the file",
                file.string(), number, owner, counted(parts, "part"));
  }
  return owner;
}

}  // namespace

Partition read_partition(const std::filesystem::path& file, std::int64_t nodes, int parts) {
  if (parts < 1) throw_error(ErrorCode::usage, "--parts {}: at least 1 is needed", parts);
  const auto mapped = MappedFile::open(file);
  Partition partition;
  partition.parts = parts;
  std::vector<bool> used(static_cast<std::size_t>(parts), false);
  std::string_view rest = mapped->text();
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const auto number = static_cast<std::int64_t>(partition.owner.size()) + 1;
    const std::int32_t owner = parse_owner(rest.substr(0, end), file, number, parts);
    partition.owner.push_back(owner);
    used[static_cast<std::size_t>(owner)] = true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (static_cast<std::int64_t>(partition.owner.size()) != nodes) {
    throw_error(ErrorCode::bad_input, "partition file {} has {} lines but the graph has {} nodes",
                file.string(), partition.owner.size(), nodes);
  }
  const auto empty = std::find(used.begin(), used.end(), false);
  if (empty != used.end()) {
    throw_error(ErrorCode::bad_input, "partition file {} leaves part {} of {} empty", file.string(),
                empty - used.begin(), parts);
  }
  return partition;
}

void write_partition(const Partition& partition, const std::filesystem::path& file) {
  std::string text;
  text.reserve(partition.owner.size() * 3);
  for (const std::int32_t owner : partition.owner) {
    text += std::to_string(owner);
    text += '\n';
  }
  write_file_atomically(file, std::as_bytes(std::span(text)));
}

std::string partition_hash(const Partition& partition) {
  std::vector<std::int32_t> words{partition.parts};
  words.insert(words.end(), partition.owner.begin(), partition.owner.end());
  return hex64(xxh64(std::as_bytes(std::span(words))));
}

}  // namespace heliograph
