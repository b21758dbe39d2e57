#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/throw_error.hpp"
#include "graph/io/json.hpp"
#include "train/options/parse.hpp"

namespace heliograph {

/// The JSON type of an option in a config file.
enum class FieldKind : std::uint8_t { toggle, integer, number, text };

/// One option of the command line, config files and run.json. A table of fields is the only list
/// that ties flags to members of `Target`.
template <class Target>
struct OptionField {
  std::string name;   ///< The flag without its dashes, which is also the key in JSON.
  std::string group;  ///< Heading in --help.
  FieldKind kind = FieldKind::text;
  std::string placeholder;  ///< What --help shows for the value, e.g. "N".
  std::string help;
  std::string bare = {};  ///< The value of a flag that is given without one; empty: it needs one.
  /// Parses a text and stores its value. Throws Error(usage) that names the flag.
  std::function<void(Target&, const std::string&)> set;
  /// The value as JSON, null if none is set. Empty for a shorthand of other fields.
  std::function<nlohmann::json(const Target&)> get;
};

/// The text of a JSON value for `OptionField::set`. Throws Error(usage) if `kind` is another type.
std::string option_text(const std::string& name, FieldKind kind, const nlohmann::json& value);

/// A function that returns a member of a target: HELIOGRAPH_MEMBER(model.layers).
#define HELIOGRAPH_MEMBER(path) \
  [](auto& target) -> auto& { return target.path; }

/// Builds a table of options in the order of --help.
template <class Target>
class FieldTable {
 public:
  using Field = OptionField<Target>;

  /// Begins with the fields of another table.
  explicit FieldTable(std::vector<Field> fields = {}) : fields_(std::move(fields)) {}

  /// Sets the heading of the fields that are added next.
  void group(std::string heading) { group_ = std::move(heading); }

  /// Adds a field for the member that `access` returns: a bool, an integer, a float or double, an
  /// enumeration, a string or path, which is not set while it is empty, or an optional of these.
  /// The reference that is returned is valid until the next field is added.
  template <class Access>
  Field& add(std::string name, std::string placeholder, std::string help, Access access) {
    using Member = std::remove_cvref_t<std::invoke_result_t<Access, Target&>>;
    using Value = typename Present<Member>::type;
    fields_.push_back({name,
                       group_,
                       kind_of<Value>(),
                       std::move(placeholder),
                       std::move(help),
                       {},
                       [name, access](Target& target, const std::string& text) {
                         access(target) = parse<Value>(name, text);
                       },
                       [access](const Target& target) { return to_json(access(target)); }});
    return fields_.back();
  }
  /// Adds a switch, which takes no value, or an enumeration, whose values --help lists.
  template <class Access>
  Field& add(std::string name, std::string help, Access access) {
    using Value = std::remove_cvref_t<std::invoke_result_t<Access, Target&>>;
    std::string placeholder;
    if constexpr (std::is_enum_v<Value>) placeholder = choices_text<Value>();
    return add(std::move(name), std::move(placeholder), std::move(help), access);
  }
  /// Adds a field with its own functions to store and to return its value.
  void add(std::string name, FieldKind kind, std::string placeholder, std::string help,
           decltype(Field::set) set, decltype(Field::get) get) {
    fields_.push_back({std::move(name),
                       group_,
                       kind,
                       std::move(placeholder),
                       std::move(help),
                       {},
                       std::move(set),
                       std::move(get)});
  }

  /// Adds the fields of a part of the target, which `access` returns, under their own headings.
  template <class PartFields, class Access>
  void add_part(const PartFields& part, Access access) {
    for (const auto& field : part) add_lifted(field, access);
  }
  /// Adds those that `names` lists, in its order.
  template <class PartFields, class Access>
  void add_part(const PartFields& part, Access access,
                std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      add_lifted(*std::ranges::find(part, name, [](const auto& field) { return field.name; }),
                 access);
    }
  }

  /// Adds those under one heading.
  template <class PartFields, class Access>
  void add_group(const PartFields& part, Access access, std::string_view heading) {
    for (const auto& field : part) {
      if (field.group == heading) add_lifted(field, access);
    }
  }

  std::vector<Field> take() { return std::move(fields_); }

 private:
  /// The type of a member, or of what an optional holds.
  template <class T>
  struct Present {
    using type = T;
  };
  template <class T>
  struct Present<std::optional<T>> {
    using type = T;
  };

  template <class Part, class Access>
  void add_lifted(const OptionField<Part>& field, Access access) {
    decltype(Field::get) get;
    if (field.get) {
      get = [part_get = field.get, access](const Target& target) {
        return part_get(access(target));
      };
    }
    fields_.push_back({field.name, field.group, field.kind, field.placeholder, field.help,
                       field.bare,
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
    } else if constexpr (requires { value.has_value(); }) {
      return value ? to_json(*value) : nlohmann::json();
    } else if constexpr (std::is_same_v<Value, std::filesystem::path>) {
      return to_json(value.string());
    } else if constexpr (std::is_same_v<Value, std::string>) {
      return value.empty() ? nlohmann::json() : nlohmann::json(value);
    } else {
      return value;
    }
  }

  std::string group_;
  std::vector<Field> fields_;
};

/// A JSON object of all values that are set, keyed by flag names, in table order.
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

/// Throws Error(usage) if `object`, which `origin` names, is no JSON object or has a key twice or
/// one that is not `known`.
void refuse_unknown_keys(const nlohmann::json& object, const std::vector<std::string>& known,
                         const std::string& origin);

/// The value of `name`, spelled with hyphens or underscores, in `object`; null if it has none.
const nlohmann::json* find_option(const nlohmann::json& object, const std::string& name);

/// Stores the values of `object` in table order, in which a shorthand comes before the fields that
/// it stands for. A switch X has a second key, no-X, as on the command line. `origin`: the source
/// that errors name, such as a file. Throws Error(usage): an unknown key, a type or a value that
/// does not fit.
template <class Target>
void apply_json(std::span<const OptionField<Target>> fields, const nlohmann::json& object,
                const std::string& origin, Target& target) {
  std::vector<std::string> known;
  for (const auto& field : fields) {
    known.push_back(field.name);
    if (field.kind == FieldKind::toggle) known.push_back("no-" + field.name);
  }
  refuse_unknown_keys(object, known, origin);
  for (const auto& field : fields) {
    if (const nlohmann::json* value = find_option(object, field.name)) {
      const bool as_flag = value->is_boolean() && !field.bare.empty();
      field.set(target, as_flag ? json_text(*value) : option_text(field.name, field.kind, *value));
    }
    if (field.kind != FieldKind::toggle) continue;
    if (const nlohmann::json* off = find_option(object, "no-" + field.name)) {
      if (find_option(object, field.name) != nullptr) {
        throw_error(ErrorCode::usage, "{} gives both \"{}\" and \"no-{}\"; leave one out", origin,
                    field.name, field.name);
      }
      field.set(target,
                option_text("no-" + field.name, field.kind, *off) == "true" ? "false" : "true");
    }
  }
}

}  // namespace heliograph
