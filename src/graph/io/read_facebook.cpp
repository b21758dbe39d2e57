#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "graph/io/line_reader.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/readers.hpp"
#include "graph/io/text.hpp"
#include "graph/refuse.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

template <class... Args>
[[noreturn]] void refuse_text(const fs::path& file, fmt::format_string<const Args&...> sentence,
                              const Args&... args) {
  refuse(file, "{}", legible(fmt::format(sentence, args...)));
}

/// Splits a line of comma-separated fields. Fields in double quotes may hold commas and doubled
/// quotes but no line ends.
std::vector<std::string> split_record(const fs::path& file, std::int64_t number,
                                      std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (c == '"' && (quoted || fields.back().empty())) {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (quoted) refuse_text(file, "line {}: a quote is not closed", number);
  return fields;
}

std::size_t column_of(const fs::path& file, const std::vector<std::string>& header,
                      const char* name) {
  const auto it = std::find(header.begin(), header.end(), name);
  if (it == header.end()) refuse_text(file, "line 1: there is no column {}", name);
  return static_cast<std::size_t>(it - header.begin());
}

/// The page_type of each node; an empty string for an unlabelled node.
std::vector<std::string> read_types(const fs::path& file) {
  LineReader lines(file);
  std::string_view line;
  if (!lines.next(line)) refuse_text(file, "is empty");
  const std::vector<std::string> header = split_record(file, 1, line);
  const std::size_t id_column = column_of(file, header, "id");
  const std::size_t type_column = column_of(file, header, "page_type");
  std::vector<std::pair<std::int64_t, std::string>> records;
  while (lines.next(line)) {
    if (trim(line).empty()) continue;
    std::vector<std::string> fields = split_record(file, lines.number(), line);
    if (fields.size() != header.size()) {
      refuse_text(file, "line {}: {} fields instead of {}", lines.number(), fields.size(),
                  header.size());
    }
    const auto id = parse_number<std::int64_t>(trim(fields[id_column]));
    if (!id) {
      refuse_text(file, "line {}: the id '{}' is not an integer", lines.number(),
                  fields[id_column]);
    }
    records.emplace_back(*id, std::move(fields[type_column]));
  }
  std::sort(records.begin(), records.end());
  std::vector<std::string> types(records.size());
  for (std::size_t v = 0; v < records.size(); ++v) {
    if (records[v].first != static_cast<std::int64_t>(v)) {
      refuse_text(file, "the ids are not 0 to {}, each once: found {} instead of {}",
                  records.size() - 1, records[v].first, v);
    }
    types[v] = std::move(records[v].second);
  }
  return types;
}

void fill_labels(const std::vector<std::string>& types, const fs::path& file, Dataset& dataset) {
  std::map<std::string, std::int32_t> ids;
  for (const std::string& type : types) {
    if (!type.empty()) ids.emplace(type, 0);
  }
  if (ids.empty()) refuse_text(file, "no node has a page_type");
  for (auto& [type, id] : ids) {
    id = static_cast<std::int32_t>(dataset.class_names.size());
    dataset.class_names.push_back(type);
  }
  std::vector<std::int32_t> class_of(types.size(), -1);
  for (std::size_t v = 0; v < types.size(); ++v) {
    if (!types[v].empty()) class_of[v] = ids.at(types[v]);
  }
  dataset.labels.classes = static_cast<std::int32_t>(ids.size());
  dataset.labels.class_of = std::move(class_of);
}

/// The word ids of one node, ascending, each once.
std::vector<std::int32_t> words_of(const nlohmann::json& list, const fs::path& file,
                                   const std::string& node) {
  if (!list.is_array()) refuse_text(file, "node {} has no list of words", node);
  std::vector<std::int32_t> words;
  for (const auto& item : list) {
    const bool integral = item.is_number_integer();
    if (!integral || item < 0 || item >= std::numeric_limits<std::int32_t>::max()) {
      refuse_text(file, "node {} has the word {}, which is not an id from 0", node,
                  item.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
    words.push_back(item.get<std::int32_t>());
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

Features read_words(const fs::path& file, std::int64_t nodes) {
  const auto mapped = MappedFile::open(file);
  nlohmann::json object;
  std::set<std::int64_t> seen;  // The parser keeps one of two lists without a word.
  const auto refuse_repeated = [&](int depth, nlohmann::json::parse_event_t event,
                                   const nlohmann::json& parsed) {
    if (depth != 1 || event != nlohmann::json::parse_event_t::key) return true;
    const auto node = parse_number<std::int64_t>(parsed.get_ref<const std::string&>());
    if (node && !seen.insert(*node).second) refuse_text(file, "gives node {} twice", *node);
    return true;
  };
  try {
    object = nlohmann::json::parse(mapped->text(), refuse_repeated);
  } catch (const nlohmann::json::exception& error) {
    refuse_text(file, "is damaged JSON: {}", reason_of(error));
  }
  if (!object.is_object()) refuse_text(file, "is not an object from nodes to lists of words");
  std::vector<std::vector<std::int32_t>> rows(static_cast<std::size_t>(nodes));
  std::int64_t cols = 0;
  for (const auto& [key, list] : object.items()) {
    const auto node = parse_number<std::int64_t>(key);
    if (!node || *node < 0 || *node >= nodes) {
      refuse_text(file, "'{}' is not a node in [0, {})", key, nodes);
    }
    auto& row = rows[static_cast<std::size_t>(*node)];
    row = words_of(list, file, key);
    if (!row.empty()) cols = std::max<std::int64_t>(cols, row.back() + std::int64_t{1});
  }
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::int32_t> columns;
  for (const auto& row : rows) {
    columns.insert(columns.end(), row.begin(), row.end());
    offsets.push_back(static_cast<std::int64_t>(columns.size()));
  }
  std::vector<float> ones(columns.size(), 1.0F);
  return sparse_features(cols, std::move(offsets), std::move(columns), std::move(ones),
                         file.string());
}

}  // namespace

bool is_facebook(const fs::path& path) {
  return fs::exists(path / "edges.csv") &&
         (fs::exists(path / "features.json") || fs::exists(path / "target.csv"));
}

Dataset read_facebook(const fs::path& directory, const ImportOptions& options,
                      ImportCounts& counts) {
  Dataset dataset;
  const fs::path target = directory / "target.csv";
  const std::vector<std::string> types = read_types(target);
  const auto nodes = static_cast<std::int64_t>(types.size());
  fill_labels(types, target, dataset);
  dataset.features = read_words(directory / "features.json", nodes);
  const fs::path edges = directory / "edges.csv";
  dataset.graph = build_graph(nodes, read_edge_file(edges, 0, nodes, options),
                              options.keep_direction, counts, edges.string());
  return dataset;
}

}  // namespace heliograph
