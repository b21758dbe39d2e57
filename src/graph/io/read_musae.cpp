#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/plural.hpp"
#include "graph/io/csv.hpp"
#include "graph/io/files.hpp"
#include "graph/io/json.hpp"
#include "graph/io/line_reader.hpp"
#include "graph/io/parts.hpp"
#include "graph/io/readers.hpp"
#include "graph/io/text.hpp"
#include "graph/refuse.hpp"
#include "graph/utf8.hpp"
#include "graph/validate.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

template <class... Args>
[[noreturn]] void refuse_text(const fs::path& file, fmt::format_string<const Args&...> sentence,
                              const Args&... args) {
  refuse(file, "{}", legible(fmt::format(sentence, args...)));
}

/// The column that is usually predicted: the types of pages on Facebook, the kind of developers
/// on GitHub, whether streams on Twitch are for adults only, and "target" elsewhere.
std::string usual_target(const fs::path& file, const std::vector<std::string>& header) {
  for (const char* name : {"page_type", "ml_target", "mature", "target"}) {
    if (std::ranges::find(header, name) != header.end()) return name;
  }
  refuse_text(file, "none of the columns {} is a usual target; {}", listed(header, "and"),
              spell_options("name one with --target"));
}

/// One field of each node, in the order of nodes.
struct Column {
  std::string name;
  std::vector<std::string> values;
};

Column read_target_column(const fs::path& file, const std::string& wanted) {
  LineReader lines(file);
  std::string_view line;
  if (!lines.next(line)) refuse_text(file, "is empty");
  const std::vector<std::string> header = split_record(lines, line);
  if (!wanted.empty() && std::ranges::find(header, wanted) == header.end()) {
    throw_error(ErrorCode::usage, "--target {}: {} has the columns {}", wanted, file.string(),
                legible(listed(header, "and")));
  }
  Column column{wanted.empty() ? usual_target(file, header) : wanted, {}};
  const std::size_t target = column_of(lines, header, column.name);
  // Graphs of Twitch give the nodes of edges and features as new_id.
  const bool renumbered = std::ranges::find(header, "new_id") != header.end();
  const std::size_t id_column = column_of(lines, header, renumbered ? "new_id" : "id");
  std::vector<std::pair<std::int64_t, std::string>> records;
  while (lines.next(line)) {
    if (trim(line).empty()) continue;
    std::vector<std::string> fields = split_record(lines, line);
    if (fields.size() != header.size()) {
      lines.refuse("{} fields instead of {}", fields.size(), header.size());
    }
    if (!is_utf8(fields[target])) {
      lines.refuse("the {} is not UTF-8; iconv -f latin1 -t utf8 converts a file in Latin-1",
                   column.name);
    }
    const auto id = parse_number<std::int64_t>(trim(fields[id_column]));
    if (!id) lines.refuse("the id '{}' is not an integer", fields[id_column]);
    records.emplace_back(*id, std::move(fields[target]));
  }
  std::ranges::sort(records);
  for (std::size_t v = 0; v < records.size(); ++v) {
    if (records[v].first != static_cast<std::int64_t>(v)) {
      refuse_text(file, "the ids are not 0 to {}, each once: found {} instead of {}",
                  records.size() - 1, records[v].first, v);
    }
    column.values.push_back(std::move(records[v].second));
  }
  return column;
}

/// Numbers to predict; a missing one is NaN.
Labels numbers_of(const Column& column, const fs::path& file) {
  std::vector<float> numbers;
  for (const std::string& text : column.values) {
    const auto number = is_missing(text) ? std::numeric_limits<float>::quiet_NaN()
                                         : parse_number<float>(trim(text));
    if (!number) {
      refuse_text(file, "{} of node {} is '{}', which is not a number", column.name, numbers.size(),
                  text);
    }
    numbers.push_back(*number);
  }
  const auto nodes = static_cast<std::int64_t>(numbers.size());
  return make_labels(as_array(file.string(), std::move(numbers), {nodes}), nodes, true);
}

/// The number, if it is whole. pandas writes whole numbers as 3.0 where others are missing.
std::optional<double> whole_number(const std::string& text) {
  const auto number = parse_number<double>(trim(text));
  return number && std::isfinite(*number) && *number == std::trunc(*number) ? number : std::nullopt;
}

/// Classes are the distinct values, whole numbers in their order and other values in that of their
/// text. A missing value is unlabelled, and so is -1 among whole numbers.
void fill_classes(const Column& column, const fs::path& file, bool requires_labels,
                  Dataset& dataset) {
  std::set<std::string> distinct(column.values.begin(), column.values.end());
  std::erase_if(distinct, is_missing);
  const bool numbers = std::ranges::all_of(
      distinct, [](const auto& name) { return whole_number(name).has_value(); });
  if (numbers) std::erase_if(distinct, [](const auto& name) { return whole_number(name) == -1; });
  if (distinct.empty() && requires_labels) refuse_text(file, "no node has a {}", column.name);
  if (static_cast<std::int64_t>(distinct.size()) > kMaxClasses) {
    refuse_text(file, "{} has {} distinct values; a data set has at most {} classes{}", column.name,
                distinct.size(), kMaxClasses, spell_options("; --regression predicts numbers"));
  }
  std::vector<std::string>& names = dataset.class_names;
  names.assign(distinct.begin(), distinct.end());
  if (numbers) std::ranges::stable_sort(names, {}, whole_number);
  std::map<std::string, std::int32_t> ids;
  for (const std::string& name : names) ids.emplace(name, static_cast<std::int32_t>(ids.size()));
  std::vector<std::int32_t> class_of(column.values.size(), -1);
  for (std::size_t v = 0; v < class_of.size(); ++v) {
    const auto id = ids.find(column.values[v]);
    if (id != ids.end()) class_of[v] = id->second;
  }
  dataset.labels.classes = std::max(1, static_cast<std::int32_t>(names.size()));
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
                  json_text(item));
    }
    words.push_back(item.get<std::int32_t>());
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

Features read_words(const fs::path& file, const RowCount& nodes) {
  const auto mapped = MappedFile::open(file);
  if (nests_too_deeply(mapped->text())) refuse_text(file, "nests lists too deeply");
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
    object = parse_json<nlohmann::json>(mapped->text(), refuse_repeated);
  } catch (const nlohmann::json::exception& error) {
    refuse_text(file, "is damaged JSON: {}", reason_of(error));
  }
  if (!object.is_object()) refuse_text(file, "is not an object from nodes to lists of words");
  std::vector<std::vector<std::int32_t>> rows(static_cast<std::size_t>(nodes.rows));
  std::int64_t cols = 0;
  for (const auto& [key, list] : object.items()) {
    const auto node = parse_number<std::int64_t>(key);
    if (!node || *node < 0 || *node >= nodes.rows) {
      refuse_text(file, "'{}' is not a node in [0, {}), the nodes of {}", key, nodes.rows,
                  nodes.short_name());
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

struct Files {
  fs::path edges, features, target;
};

/// The files of each graph in a directory: PREFIXedges.csv, PREFIXtarget.csv, and
/// PREFIXfeatures.json or, as for Twitch, the same without "_features".
std::vector<Files> find_graphs(const fs::path& directory) {
  std::vector<Files> graphs;
  if (!fs::is_directory(directory)) return graphs;
  constexpr std::string_view kEdges = "edges.csv";
  for (const auto& entry : fs::directory_iterator(directory)) {
    std::string prefix = entry.path().filename();
    if (!prefix.ends_with(kEdges)) continue;
    prefix.resize(prefix.size() - kEdges.size());
    Files files{entry.path(), directory / (prefix + "features.json"),
                directory / (prefix + "target.csv")};
    const bool short_name = prefix.ends_with('_') && !fs::exists(files.features);
    if (short_name) files.features = directory / (prefix.substr(0, prefix.size() - 1) + ".json");
    if (fs::exists(files.features) || fs::exists(files.target)) graphs.push_back(files);
  }
  return graphs;
}

}  // namespace

bool is_musae(const fs::path& path) { return !find_graphs(path).empty(); }

Dataset read_musae(const fs::path& directory, const ImportOptions& options, ImportCounts& counts) {
  const std::vector<Files> graphs = find_graphs(directory);
  if (graphs.size() != 1) {
    refuse(directory, "holds {} graphs (NAME_edges.csv with NAME_target.csv); a directory has one",
           graphs.size());
  }
  const auto& [edges, features, target] = graphs[0];
  Dataset dataset;
  const Column column = read_target_column(target, options.target);
  const RowCount nodes{target.string(), std::ssize(column.values)};
  if (options.regression) {
    dataset.labels = numbers_of(column, target);
  } else {
    fill_classes(column, target, options.requires_labels, dataset);
  }
  dataset.features = read_words(features, nodes);
  dataset.graph = build_graph(nodes.rows, read_edge_file(edges, {}, nodes, options, 2),
                              options.keep_direction, counts, edges.string());
  return dataset;
}

}  // namespace heliograph
