#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// For the sentences of the command too, which may not include core.
#include "core/plural.hpp"
#include "core/throw_error.hpp"

namespace heliograph {

/// A value of an enumeration and its spelling.
template <class Enum>
using EnumName = std::pair<std::string_view, Enum>;

/// All values of an enumeration with their spellings; defined for every option in values.hpp.
template <class Enum>
extern const EnumName<Enum> enum_names[];

/// Makes error messages of this process write options as flags, "--parts"; by default they write
/// "parts". Call it before other threads start.
void name_options_as_flags() noexcept;

// Parsers of an option's text. They throw Error(usage) that names the flag; `name` is the flag
// without its dashes.
std::int64_t parse_integer(const std::string& name, const std::string& text, std::int64_t lowest,
                           std::int64_t highest);
/// Accepts every value of the integer type.
template <class Value>
Value parse_integer(const std::string& name, const std::string& text) {
  using Limits = std::numeric_limits<Value>;
  return static_cast<Value>(parse_integer(name, text, Limits::min(), Limits::max()));
}
std::uint64_t parse_seed(const std::string& name, const std::string& text);
double parse_number(const std::string& name, const std::string& text);
bool parse_toggle(const std::string& name, const std::string& text);

/// Throws Error(usage): `--name must be WHAT, not "text"`.
[[noreturn]] void refuse_value(const std::string& name, const std::string& what,
                               const std::string& text);

/// Throws Error(usage): `--name must be a, b or c, not "text"`, with the nearest if one is near.
[[noreturn]] void refuse_choice(const std::string& name, const std::string& text,
                                const std::vector<std::string>& choices);

/// The candidate that is spelled most like `name`; empty if none is near.
std::string nearest_spelling(const std::string& name, const std::vector<std::string>& candidates);

/// A float as the shortest decimal that reads back as the same float.
double shortest_decimal(float value);

/// `other`: a further choice that error messages list, for a value that the caller parses itself.
template <class Enum>
Enum parse_choice(const std::string& name, const std::string& text, const char* other = nullptr) {
  std::vector<std::string> choices;
  for (const auto& [spelling, value] : enum_names<Enum>) {
    if (spelling == text) return value;
    choices.emplace_back(spelling);
  }
  if (other != nullptr) choices.emplace_back(other);
  refuse_choice(name, text, choices);
}

/// "a|b|c": how --help shows the values of an enumeration.
template <class Enum>
std::string choices_text() {
  std::string text;
  for (const auto& name : enum_names<Enum>) {
    if (!text.empty()) text += '|';
    text += name.first;
  }
  return text;
}

/// Throws Error(usage) for a value that the enumeration does not have.
template <class Enum>
std::string choice_name(Enum value) {
  for (const auto& [spelling, candidate] : enum_names<Enum>) {
    if (candidate == value) return std::string(spelling);
  }
  throw Error(ErrorCode::usage, "an option holds " + std::to_string(static_cast<int>(value)) +
                                    ", which is none of " + choices_text<Enum>());
}

}  // namespace heliograph
