#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace heliograph {

/// The JSON type of an option in a config file.
enum class FieldKind : std::uint8_t { toggle, integer, number, text };

/// One option, as the command line, the config file and run.json all know it. A table of these is
/// the only place where a flag is tied to a member of `Target`.
template <class Target>
struct OptionField {
  std::string name;   ///< The flag without its dashes; the key in JSON.
  std::string group;  ///< Heading in --help.
  FieldKind kind = FieldKind::text;
  std::string placeholder;  ///< What --help shows for the value, e.g. "N".
  std::string help;
  /// Parses and stores. Throws Error(usage) that names the flag.
  std::function<void(Target&, const std::string&)> set;
  /// The value as JSON, null where none is set. Empty for a shorthand that other fields spell out.
  std::function<nlohmann::json(const Target&)> get;
};

/// A value of an enumeration and its spelling.
template <class Enum>
using EnumName = std::pair<std::string_view, Enum>;

/// Those of every enumeration that an option has, in option_values.hpp.
template <class Enum>
extern const EnumName<Enum> enum_names[];

// Parsers of option text; `name` is the flag without dashes. All throw Error(usage).
std::int64_t parse_integer(const std::string& name, const std::string& text, std::int64_t lowest,
                           std::int64_t highest);
/// Any value of an integer type.
template <class Value>
Value parse_integer(const std::string& name, const std::string& text) {
  using Limits = std::numeric_limits<Value>;
  return static_cast<Value>(parse_integer(name, text, Limits::min(), Limits::max()));
}
std::uint64_t parse_seed(const std::string& name, const std::string& text);
double parse_number(const std::string& name, const std::string& text);
bool parse_toggle(const std::string& name, const std::string& text);

/// Throws Error(usage): `--name must be one of a, b or c, not "text"; nearest: a`.
[[noreturn]] void refuse_choice(const std::string& name, const std::string& text,
                                const std::vector<std::string>& choices);

/// The candidate that is spelled most like `name`; empty without candidates.
std::string nearest_spelling(const std::string& name, const std::vector<std::string>& candidates);

/// A float as the shortest decimal that reads back as the same float.
double shortest_decimal(float value);

/// Text of a JSON value for `OptionField::set`. Throws Error(usage) if its type does not fit.
std::string option_text(const std::string& name, FieldKind kind, const nlohmann::json& value);

/// `other`: a value that is none of the enumeration's names, for the sentence that refuses.
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

template <class Enum>
std::string choice_name(Enum value) {
  for (const auto& [spelling, candidate] : enum_names<Enum>) {
    if (candidate == value) return std::string(spelling);
  }
  return {};
}

/// "a|b|c": what --help shows for one of these values.
template <class Enum>
std::string choices_text() {
  std::string text;
  for (const auto& name : enum_names<Enum>) {
    if (!text.empty()) text += '|';
    text += name.first;
  }
  return text;
}

/// What a table of options calls to reach a member of its target: HELIOGRAPH_MEMBER(model.layers).
#define HELIOGRAPH_MEMBER(path) \
  [](auto& target) -> auto& { return target.path; }

/// Builds a table of options, in the order of --help.
template <class Target>
class FieldTable {
 public:
  using Field = OptionField<Target>;

  /// Goes on from what another table has made.
  explicit FieldTable(std::vector<Field> fields = {}) : fields_(std::move(fields)) {}

  /// The heading of the fields that follow.
  void group(std::string heading) { group_ = std::move(heading); }

  /// A field for the member that `access` returns: a bool, an integer, a float or double, a text
  /// that may be missing, or an enumeration. The field returned is good until the next is added.
  template <class Access>
  Field& add(std::string name, std::string placeholder, std::string help, Access access) {
    using Value = std::remove_cvref_t<std::invoke_result_t<Access, Target&>>;
    fields_.push_back({name, group_, kind_of<Value>(), std::move(placeholder), std::move(help),
                       [name, access](Target& target, const std::string& text) {
                         access(target) = parse<Value>(name, text);
                       },
                       [access](const Target& target) { return to_json(access(target)); }});
    return fields_.back();
  }
  /// The same of a switch, which takes no value, or of an enumeration, which shows its values.
  template <class Access>
  Field& add(std::string name, std::string help, Access access) {
    using Value = std::remove_cvref_t<std::invoke_result_t<Access, Target&>>;
    std::string placeholder;
    if constexpr (std::is_enum_v<Value>) placeholder = choices_text<Value>();
    return add(std::move(name), std::move(placeholder), std::move(help), access);
  }
  /// A field that is told how its text is stored, and how it reads as JSON.
  void add(std::string name, FieldKind kind, std::string placeholder, std::string help,
           decltype(Field::set) set, decltype(Field::get) get) {
    fields_.push_back({std::move(name), group_, kind, std::move(placeholder), std::move(help),
                       std::move(set), std::move(get)});
  }

  /// The fields of a part of the target, which `access` returns, with headings of their own.
  template <class PartFields, class Access>
  void add_part(const PartFields& part, Access access) {
    for (const auto& field : part) add_lifted(field, access);
  }
  /// Those of them that `names` lists, in its order.
  template <class PartFields, class Access>
  void add_part(const PartFields& part, Access access,
                std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      add_lifted(*std::ranges::find(part, name, [](const auto& field) { return field.name; }),
                 access);
    }
  }

  std::vector<Field> take() { return std::move(fields_); }

 private:
  template <class Part, class Access>
  void add_lifted(const OptionField<Part>& field, Access access) {
    decltype(Field::get) get;
    if (field.get) {
      get = [part_get = field.get, access](const Target& target) {
        return part_get(access(target));
      };
    }
    fields_.push_back({field.name, field.group, field.kind, field.placeholder, field.help,
                       [part_set = field.set, access](Target& target, const std::string& text) {
                         part_set(access(target), text);
                       },
                       std::move(get)});
  }

  template <class Value>
  static constexpr FieldKind kind_of() {
    if (std::is_same_v<Value, bool>) return FieldKind::toggle;
    if (std::is_integral_v<Value>) return FieldKind::integer;
    return std::is_floating_point_v<Value> ? FieldKind::number : FieldKind::text;
  }

  template <class Value>
  static Value parse(const std::string& name, const std::string& text) {
    if constexpr (std::is_same_v<Value, bool>) {
      return parse_toggle(name, text);
    } else if constexpr (std::is_same_v<Value, std::uint64_t>) {
      return parse_seed(name, text);
    } else if constexpr (std::is_integral_v<Value>) {
      return parse_integer<Value>(name, text);
    } else if constexpr (std::is_floating_point_v<Value>) {
      return static_cast<Value>(parse_number(name, text));
    } else if constexpr (std::is_enum_v<Value>) {
      return parse_choice<Value>(name, text);
    } else {
      return text;
    }
  }

  template <class Value>
  static nlohmann::json to_json(const Value& value) {
    if constexpr (std::is_same_v<Value, float>) {
      return shortest_decimal(value);
    } else if constexpr (std::is_enum_v<Value>) {
      return choice_name(value);
    } else if constexpr (std::is_same_v<Value, std::string>) {
      return value.empty() ? nlohmann::json() : nlohmann::json(value);
    } else {
      return value;
    }
  }

  std::string group_;
  std::vector<Field> fields_;
};

/// All values that are set as one JSON object, keyed by flag names, in table order.
template <class Target>
nlohmann::ordered_json fields_to_json(std::span<const OptionField<Target>> fields,
                                      const Target& target) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& field : fields) {
    if (!field.get) continue;
    if (nlohmann::json value = field.get(target); !value.is_null()) {
      object[field.name] = std::move(value);
    }
  }
  return object;
}

/// Throws Error(usage) for the first key of `object` that no field has (with the nearest one).
void refuse_unknown_keys(const nlohmann::json& object, const std::vector<std::string>& known,
                         const std::string& origin);

/// The value of `name` in `object`, spelled with hyphens or underscores; null if absent.
const nlohmann::json* find_option(const nlohmann::json& object, const std::string& name);

/// Stores every key of `object`; in table order, so that a shorthand comes before what it
/// abbreviates. `origin` names the source in errors, e.g. a file.
/// Throws Error(usage): an unknown key, a type or a value that does not fit.
template <class Target>
void apply_json(std::span<const OptionField<Target>> fields, const nlohmann::json& object,
                const std::string& origin, Target& target) {
  std::vector<std::string> known;
  for (const auto& field : fields) known.push_back(field.name);
  refuse_unknown_keys(object, known, origin);
  for (const auto& field : fields) {
    if (const nlohmann::json* value = find_option(object, field.name)) {
      field.set(target, option_text(field.name, field.kind, *value));
    }
  }
}

}  // namespace heliograph
