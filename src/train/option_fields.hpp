#pragma once

#include <cstdint>
#include <functional>
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

/// Text of the values of an enumeration, first spelling first.
template <class Enum>
using EnumNames = std::vector<std::pair<std::string, Enum>>;

// Parsers of option text; `name` is the flag without dashes. All throw Error(usage).
std::int64_t parse_integer(const std::string& name, const std::string& text, std::int64_t lowest,
                           std::int64_t highest);
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

template <class Enum>
Enum parse_choice(const std::string& name, const std::string& text, const EnumNames<Enum>& names) {
  std::vector<std::string> choices;
  for (const auto& [spelling, value] : names) {
    if (spelling == text) return value;
    choices.push_back(spelling);
  }
  refuse_choice(name, text, choices);
}

template <class Enum>
std::string choice_name(Enum value, const EnumNames<Enum>& names) {
  for (const auto& [spelling, candidate] : names) {
    if (candidate == value) return spelling;
  }
  return {};
}

/// A field for the member that `access` returns: bool, integer, float, double or text.
template <class Target, class Access>
OptionField<Target> make_field(std::string name, std::string group, std::string placeholder,
                               std::string help, Access access) {
  using Value = std::remove_cvref_t<std::invoke_result_t<Access, Target&>>;
  OptionField<Target> field{
      name, std::move(group), FieldKind::text, std::move(placeholder), std::move(help), {}, {}};
  field.get = [access](const Target& target) { return nlohmann::json(access(target)); };
  if constexpr (std::is_same_v<Value, bool>) {
    field.kind = FieldKind::toggle;
    field.set = [name, access](Target& target, const std::string& text) {
      access(target) = parse_toggle(name, text);
    };
  } else if constexpr (std::is_same_v<Value, std::uint64_t>) {
    field.kind = FieldKind::integer;
    field.set = [name, access](Target& target, const std::string& text) {
      access(target) = parse_seed(name, text);
    };
  } else if constexpr (std::is_integral_v<Value>) {
    field.kind = FieldKind::integer;
    field.set = [name, access](Target& target, const std::string& text) {
      access(target) = static_cast<Value>(parse_integer(
          name, text, std::numeric_limits<Value>::min(), std::numeric_limits<Value>::max()));
    };
  } else if constexpr (std::is_floating_point_v<Value>) {
    field.kind = FieldKind::number;
    field.set = [name, access](Target& target, const std::string& text) {
      access(target) = static_cast<Value>(parse_number(name, text));
    };
    if constexpr (std::is_same_v<Value, float>) {
      field.get = [access](const Target& target) {
        return nlohmann::json(shortest_decimal(access(target)));
      };
    }
  } else {
    field.set = [access](Target& target, const std::string& text) { access(target) = text; };
    field.get = [access](const Target& target) {
      return nlohmann::json(std::string(access(target)));
    };
  }
  return field;
}

/// A field for text that may be missing: a path.
template <class Target, class Access>
OptionField<Target> make_optional_text(std::string name, std::string group, std::string placeholder,
                                       std::string help, Access access) {
  auto field =
      make_field<Target>(name, std::move(group), std::move(placeholder), std::move(help), access);
  field.get = [access](const Target& target) {
    const std::string& text = access(target);
    return text.empty() ? nlohmann::json() : nlohmann::json(text);
  };
  return field;
}

/// A field that picks one of `names`.
template <class Target, class Enum, class Access>
OptionField<Target> make_choice(std::string name, std::string group, std::string help,
                                EnumNames<Enum> names, Access access) {
  std::string placeholder;
  for (const auto& entry : names) {
    placeholder += (placeholder.empty() ? "" : "|") + entry.first;
  }
  OptionField<Target> field{
      name, std::move(group), FieldKind::text, std::move(placeholder), std::move(help), {}, {}};
  field.set = [name, names, access](Target& target, const std::string& text) {
    access(target) = parse_choice(name, text, names);
  };
  field.get = [names, access](const Target& target) {
    return nlohmann::json(choice_name(access(target), names));
  };
  return field;
}

/// The same field for a `Whole` that holds the part which `access` returns.
template <class Whole, class Part, class Access>
OptionField<Whole> lift_field(const OptionField<Part>& part, Access access) {
  OptionField<Whole> field{part.name, part.group, part.kind, part.placeholder, part.help, {}, {}};
  field.set = [set = part.set, access](Whole& whole, const std::string& text) {
    set(access(whole), text);
  };
  if (part.get) {
    field.get = [get = part.get, access](const Whole& whole) { return get(access(whole)); };
  }
  return field;
}

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
