#pragma once

#include <istream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace heliograph {

// Json::parse and Json::dump are called in json.cpp alone, because each file that compiles them
// takes seconds longer.

/// A function that sees each value as it is parsed, and says whether it is kept.
template <class Json>
using JsonFilter = typename Json::parser_callback_t;

/// The value of a JSON text. Json: nlohmann::json or nlohmann::ordered_json. Throws
/// nlohmann::json::exception for a text that is no JSON.
template <class Json>
Json parse_json(std::string_view text, const JsonFilter<Json>& filter = nullptr);

/// The same of a stream, which is read up to its first error, as nlohmann::json.
nlohmann::json parse_json(std::istream& text, const JsonFilter<nlohmann::json>& filter);

/// As parse_json, but returns a discarded value for a text that is no JSON.
template <class Json>
Json try_parse_json(std::string_view text, const JsonFilter<Json>& filter = nullptr);
nlohmann::json try_parse_json(std::istream& text);

/// The text of a value: in one line, or with `indent` spaces a level. U+FFFD replaces bytes that
/// are no UTF-8.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

/// A string without its quotes, or the text of another value.
std::string plain_text(const nlohmann::json& value);

/// No file of ours nests arrays and objects so deeply. The JSON library copies and prints values by
/// recursion, which deeper ones would let overflow the stack.
inline constexpr int kMostJsonLevels = 64;

/// Whether a JSON text nests arrays and objects more than kMostJsonLevels deep.
bool nests_too_deeply(std::string_view text);

}  // namespace heliograph
