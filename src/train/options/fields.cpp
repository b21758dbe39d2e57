#include "train/options/fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "core/nearest_name.hpp"
#include "heliograph/error.hpp"

namespace heliograph {
namespace {

std::string with_hyphens(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

template <class Value>
bool parse_all(const std::string& text, Value& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stop == end;
}

[[noreturn]] void refuse(const std::string& name, const std::string& what,
                         const std::string& text) {
  throw Error(ErrorCode::usage, fmt::format("--{} must be {}, not \"{}\"", name, what, text));
}

}  // namespace

std::int64_t parse_integer(const std::string& name, const std::string& text, std::int64_t lowest,
                           std::int64_t highest) {
  std::int64_t value = 0;
  if (!parse_all(text, value)) refuse(name, "a whole number", text);
  if (value < lowest || value > highest) {
    refuse(name, fmt::format("a whole number from {} to {}", lowest, highest), text);
  }
  return value;
}

std::uint64_t parse_seed(const std::string& name, const std::string& text) {
  std::uint64_t value = 0;
  if (!parse_all(text, value)) refuse(name, "a whole number from 0 to 2^64 - 1", text);
  return value;
}

double parse_number(const std::string& name, const std::string& text) {
  double value = 0;
  if (!parse_all(text, value) || !std::isfinite(value)) refuse(name, "a finite number", text);
  return value;
}

bool parse_toggle(const std::string& name, const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  refuse(name, "true or false", text);
}

void refuse_choice(const std::string& name, const std::string& text,
                   const std::vector<std::string>& choices) {
  throw Error(ErrorCode::usage,
              fmt::format("--{} must be {} or {}, not \"{}\"; the nearest is {}", name,
                          fmt::join(choices.begin(), choices.end() - 1, ", "), choices.back(), text,
                          nearest_name(text, choices)));
}

std::string nearest_spelling(const std::string& name, const std::vector<std::string>& candidates) {
  return nearest_name(name, candidates);
}

double shortest_decimal(float value) { return std::stod(fmt::format("{}", value)); }

std::string option_text(const std::string& name, FieldKind kind, const nlohmann::json& value) {
  const auto require = [&](bool fits, const char* what) {
    if (!fits) refuse(name, what, value.dump());
  };
  if (kind == FieldKind::toggle) require(value.is_boolean(), "true or false");
  if (kind == FieldKind::integer) require(value.is_number_integer(), "a whole number");
  if (kind == FieldKind::number) require(value.is_number(), "a number");
  if (kind == FieldKind::text) require(value.is_string() || value.is_number_integer(), "text");
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void refuse_unknown_keys(const nlohmann::json& object, const std::vector<std::string>& known,
                         const std::string& origin) {
  if (!object.is_object()) {
    throw Error(ErrorCode::usage, fmt::format("{} does not hold a JSON object", origin));
  }
  std::set<std::string> seen;
  for (const auto& item : object.items()) {
    const std::string name = with_hyphens(item.key());
    if (std::ranges::find(known, name) == known.end()) {
      throw Error(ErrorCode::usage,
                  fmt::format("{} has an unknown key \"{}\"; did you mean \"{}\"?", origin,
                              item.key(), nearest_name(name, known)));
    }
    if (!seen.insert(name).second) {
      throw Error(ErrorCode::usage, fmt::format("{} gives \"{}\" twice", origin, name));
    }
  }
}

const nlohmann::json* find_option(const nlohmann::json& object, const std::string& name) {
  for (auto item = object.begin(); item != object.end(); ++item) {
    if (with_hyphens(item.key()) == name) return &item.value();
  }
  return nullptr;
}

}  // namespace heliograph
