#pragma once

#include <istream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace heliograph {

// The JSON library's parser and printer are compiled in json.cpp alone, because each further copy
// takes seconds of a build.

/// Json::parse of a text, for nlohmann::json and nlohmann::ordered_json (of texts only). `filter`
/// sees each value as it is parsed. For a text that is no JSON, throws Json::parse_error if
/// `throws`, and else returns a discarded value.
template <class Json>
Json parse_json(std::string_view text, const typename Json::parser_callback_t& filter = nullptr,
                bool throws = true);

/// The same of a stream, which is read up to its first error.
template <class Json>
Json parse_json(std::istream& text, const typename Json::parser_callback_t& filter = nullptr,
                bool throws = true);

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
