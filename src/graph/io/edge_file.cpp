#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "core/plural.hpp"
#include "graph/edge_weights.hpp"
#include "graph/io/from_one.hpp"
#include "graph/io/line_reader.hpp"
#include "graph/io/readers.hpp"
#include "graph/io/text.hpp"

namespace heliograph {
namespace {

struct EdgeFields {
  std::array<std::string_view, 3> field;
  std::size_t count = 0;  ///< How many fields the line has; only the first 3 are stored.
};

/// What separates the fields of a line: a semicolon if it has one, else a comma, else a blank,
/// which stands for tabs and blanks.
char separator_of(std::string_view line) {
  for (const char c : {';', ','}) {
    if (line.find(c) != std::string_view::npos) return c;
  }
  return ' ';
}

EdgeFields split_edge(std::string_view line, char separator) {
  EdgeFields fields;
  const auto put = [&](std::string_view field) {
    if (fields.count < fields.field.size()) fields.field[fields.count] = field;
    ++fields.count;
  };
  if (separator == ' ') {
    for (std::string_view word = take_word(line); !word.empty(); word = take_word(line)) put(word);
    return fields;
  }
  for (;;) {
    const std::size_t end = line.find(separator);
    put(trim(line.substr(0, end)));
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + 1);
  }
}

/// Whether a text has only digits and signs: it may be an integer that does not fit in 64 bits.
bool looks_integral(std::string_view text) {
  return text.find_first_of("0123456789") != std::string_view::npos &&
         text.find_first_not_of("+-0123456789") == std::string_view::npos;
}

/// Whether a field may name a column. A number that is quoted or damaged may not, as a line that
/// is taken for a header is skipped.
bool is_column_name(std::string_view field) {
  const std::size_t first = field.find_first_not_of("\"'+-. ");
  return first == std::string_view::npos ||
         (std::string_view("0123456789").find(field[first]) == std::string_view::npos &&
          !parse_number<double>(field));
}

/// A name in lower case, without quotes, blanks, underscores and colons, and without "node", "id"
/// and "index" at its end: "From_Node_ID" is "from".
std::string plain_name(std::string_view field) {
  std::string name;
  for (const char c : field) {
    if (std::string_view("\"'_: ").find(c) == std::string_view::npos)
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view tail : {"index", "id", "node"}) {
    if (name.size() > tail.size() + 1 && name.ends_with(tail))
      name.resize(name.size() - tail.size());
  }
  return name;
}

bool is_source_name(std::string_view field) {
  static constexpr std::string_view kNames[] = {"source", "src", "from", "u"};
  return std::ranges::find(kNames, plain_name(field)) != std::end(kNames);
}

bool is_target_name(std::string_view field) {
  static constexpr std::string_view kNames[] = {"target", "tgt", "destination", "dest", "dst",
                                                "to",     "v"};
  return std::ranges::find(kNames, plain_name(field)) != std::end(kNames);
}

/// Whether two plain names differ only in the number at their end, as "node1" and "node2".
bool are_numbered(std::string_view a, std::string_view b) {
  if (a.size() < 2 || a.size() != b.size() || !b.starts_with(a.substr(0, a.size() - 1)))
    return false;
  const std::string numbers = {a.back(), b.back()};
  return numbers == "01" || numbers == "12" || numbers == "ab";
}

/// Whether two columns of these names hold the two ends of edges.
bool are_ends(std::string_view one, std::string_view other) {
  if (is_source_name(one) && is_target_name(other)) return true;
  if (is_target_name(one) && is_source_name(other)) return true;
  const auto [a, b] = std::minmax({plain_name(one), plain_name(other)});
  static constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"head", "tail"}, {"object", "subject"}, {"end", "start"}, {"child", "parent"},
      {"i", "j"},       {"col", "row"},        {"column", "row"}};
  return std::ranges::find(kPairs, std::pair<std::string_view, std::string_view>(a, b)) !=
             std::end(kPairs) ||
         are_numbered(a, b);
}

/// A name without quotes.
std::string_view unquoted(std::string_view name) {
  const std::size_t first = name.find_first_not_of("\"'");
  return first == std::string_view::npos
             ? ""
             : name.substr(first, name.find_last_not_of("\"'") + 1 - first);
}

}  // namespace

EdgeList read_edge_file(const std::filesystem::path& file, std::optional<int> base_option,
                        const RowCount& nodes, const ImportOptions& options,
                        std::size_t most_fields, std::int64_t expected) {
  LineReader lines(file);
  const int base = base_option.value_or(0);
  bool saw_zero = false;
  const auto all_fit_from_one = [&] {
    try {
      read_edge_file(file, 1, nodes, options, most_fields, expected);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  const auto node = [&](std::string_view text) {
    const auto value = parse_number<std::int64_t>(text);
    if (!value && !looks_integral(text)) {
      lines.refuse("'{}' is not an integer: node numbers are whole, without quotes", text);
    }
    saw_zero = saw_zero || (value && *value == 0);
    if (value && *value == nodes.rows && base_option == 0 && !saw_zero) {
      throw_error(ErrorCode::bad_input,
                  "{}: node {} is not in [0, {}]; if nodes are numbered from 1, use --index-base 1",
                  lines.where(), text, nodes.rows - 1);
    }
    if (!value || *value < base || *value - base >= nodes.rows) {
      const bool from_one =
          value && *value == nodes.rows && !base_option && !saw_zero && all_fit_from_one();
      lines.refuse("node {} is not in [{}, {}], the nodes of {}{}", text, base,
                   nodes.rows - 1 + base, nodes.short_name(), from_one_hint(from_one));
    }
    return static_cast<NodeId>(*value - base);
  };
  EdgeList list;
  constexpr std::int64_t kShortestLine = 4;
  list.edges.reserve(static_cast<std::size_t>(
      std::clamp<std::int64_t>(expected, 0, lines.most_bytes() / kShortestLine)));
  char separator = 0;
  std::size_t named = 0;  // How many fields the header has; 0 without one.
  for (std::string_view line; lines.next(line);) {
    line = trim(line);
    if (line.empty() || line.front() == '#' || line.front() == '%') continue;
    const bool first = separator == 0;
    if (first) separator = separator_of(line);
    const EdgeFields fields = split_edge(line, separator);
    const bool header = first && std::ranges::all_of(fields.field, is_column_name);
    if (header && fields.field[0].empty()) {
      lines.refuse(
          "the header's first name is empty, as if the first column were the index of a "
          "table: write the edges without it (pandas: index=False)");
    }
    if (header && fields.count == 3 && !are_ends(fields.field[0], fields.field[1])) {
      for (const int other : {1, 0}) {
        if (!are_ends(fields.field[other], fields.field[2])) continue;
        lines.refuse(
            "the columns '{}' and '{}' are named as the ends of edges, but the first two columns "
            "are read as the ends: leave the column '{}' out{}",
            unquoted(fields.field[other]), unquoted(fields.field[2]),
            unquoted(fields.field[1 - other]),
            most_fields > 2 ? ", or write it third if it holds weights" : "");
      }
    }
    if (header && options.keep_direction && is_target_name(fields.field[0]) &&
        is_source_name(fields.field[1])) {
      lines.refuse(
          "the header names the target of an edge first, but the first column is read as its "
          "source: swap the columns");
    }
    if (header && fields.count == 3 && most_fields > 2 && !options.ignore_weights && options.log) {
      options.log(LogLevel::info, fmt::format("{}: the column '{}' is read as weights of edges",
                                              file.string(), fields.field[2]));
    }
    if (fields.count < 2 || fields.count > most_fields) {
      lines.refuse("{} between {}; {}", counted(static_cast<std::int64_t>(fields.count), "field"),
                   separator == ','   ? "commas"
                   : separator == ';' ? "semicolons"
                                      : "tabs or blanks",
                   most_fields == 2 ? "a line here has the 2 nodes of an edge"
                                    : "an edge has 2, or 3 with a weight");
    }
    if (header) {
      named = fields.count;
      continue;
    }
    if (named != 0 && fields.count > named) {
      lines.refuse(
          "{} fields, where the header has {}: give each column a name, and leave out one "
          "that numbers the rows",
          fields.count, named);
    }
    if (first) {
      const auto name =
          std::find_if(fields.field.begin(), fields.field.begin() + 2, is_column_name);
      if (name != fields.field.begin() + 2) {
        lines.refuse(
            "neither an edge, as '{}' is not an integer, nor a header, as '{}' is a number or "
            "begins "
            "like one",
            *name, *std::ranges::find_if_not(fields.field, is_column_name));
      }
    }
    const NodeId source = node(fields.field[0]);
    const NodeId target = node(fields.field[1]);
    float weight = 1.0F;
    if (fields.count == 3 && !options.ignore_weights) {
      const auto number = parse_number<double>(fields.field[2]);
      if (!number) lines.refuse("the weight '{}' is not a number", fields.field[2]);
      weight = static_cast<float>(*number);
      if (!is_edge_weight(*number)) {
        lines.refuse("the weight '{}' is neither 0 nor a normal fp32 number", fields.field[2]);
      }
    }
    list.add(source, target, weight);
  }
  return list;
}

}  // namespace heliograph
