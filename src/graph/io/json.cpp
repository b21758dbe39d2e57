#include "graph/io/json.hpp"

namespace heliograph {

template <class Json>
Json parse_json(std::string_view text, const typename Json::parser_callback_t& filter,
                bool throws) {
  return Json::parse(text, filter, throws);
}

template <class Json>
Json parse_json(std::istream& text, const typename Json::parser_callback_t& filter, bool throws) {
  return Json::parse(text, filter, throws);
}

using nlohmann::json, nlohmann::ordered_json;
template json parse_json(std::string_view, const json::parser_callback_t&, bool);
template json parse_json(std::istream&, const json::parser_callback_t&, bool);
template ordered_json parse_json(std::string_view, const ordered_json::parser_callback_t&, bool);

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
