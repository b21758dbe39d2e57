#include "train/options/fields.hpp"

#include <set>

#include "core/nearest_name.hpp"
#include "core/throw_error.hpp"
#include "graph/io/json.hpp"

namespace heliograph {
namespace {

std::string with_hyphens(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

}  // namespace

std::string option_text(const std::string& name, FieldKind kind, const nlohmann::json& value) {
  const auto require = [&](bool fits, const char* what) {
    if (fits) return;
    if (!value.is_string()) refuse_value(name, what, json_text(value));
    refuse_value(name, fmt::format("{} without quotes", what), value.get<std::string>());
  };
  if (kind == FieldKind::toggle) require(value.is_boolean(), "true or false");
  if (kind == FieldKind::integer) require(value.is_number_integer(), "a whole number");
  if (kind == FieldKind::number) require(value.is_number(), "a number");
  if (kind == FieldKind::text) {
    if (value == "") throw_error(ErrorCode::usage, "--{} needs a text that is not empty", name);
    require(value.is_string() || value.is_number(), "text or a number");
  }
  return plain_text(value);
}

void refuse_unknown_keys(const nlohmann::json& object, const std::vector<std::string>& known,
                         const std::string& origin) {
  if (!object.is_object()) {
    throw_error(ErrorCode::usage, "{} does not hold a JSON object", origin);
  }
  std::set<std::string> seen;
  for (const auto& item : object.items()) {
    const std::string name = with_hyphens(item.key());
    if (std::ranges::find(known, name) == known.end()) {
      const std::string near = nearest_name(name, known);
      throw_error(ErrorCode::usage, "{} has an unknown key \"{}\"{}", origin, item.key(),
                  near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near));
    }
    if (!seen.insert(name).second) {
      throw_error(ErrorCode::usage, "{} gives \"{}\" twice", origin, name);
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
