#include "graph/io/csv.hpp"

namespace heliograph {

std::vector<std::string> split_record(const LineReader& lines, std::string_view line) {
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
  if (quoted) lines.refuse("a quote is not closed");
  return fields;
}

std::size_t column_of(const LineReader& lines, const std::vector<std::string>& header,
                      const std::string& name, std::size_t from) {
  for (std::size_t i = from; i < header.size(); ++i) {
    if (header[i] == name) return i;
  }
  lines.refuse("there is no column {}", name);
}

}  // namespace heliograph
