#include "graph/io/json.hpp"

namespace heliograph {

using nlohmann::json, nlohmann::ordered_json;

template <class Json>
Json parse_json(std::string_view text, const JsonFilter<Json>& filter) {
  return Json::parse(text, filter);
}
template json parse_json(std::string_view, const JsonFilter<json>&);
template ordered_json parse_json(std::string_view, const JsonFilter<ordered_json>&);

json parse_json(std::istream& text, const JsonFilter<json>& filter) {
  return json::parse(text, filter);
}

template <class Json>
Json try_parse_json(std::string_view text, const JsonFilter<Json>& filter) {
  return Json::parse(text, filter, false);
}
template json try_parse_json(std::string_view, const JsonFilter<json>&);
template ordered_json try_parse_json(std::string_view, const JsonFilter<ordered_json>&);

json try_parse_json(std::istream& text) { return json::parse(text, nullptr, false); }

std::string json_text(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

std::string json_text(const ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

std::string plain_text(const json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

bool nests_too_deeply(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '{')) {
      if (++depth > kMostJsonLevels) return true;
    } else if (!quoted && (c == ']' || c == '}')) {
      --depth;
    }
  }
  return false;
}

}  // namespace heliograph
