#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/options/fields.hpp"
#include "train/options/given.hpp"

namespace CLI {
class App;
}

namespace heliograph::cli {

/// Declares a flag on `app`, in the group of --help that is called `group`. `placeholder`: what
/// --help shows for its value, empty for a switch, which --no-`name` turns off. `bare`: its value
/// if it is given without one, empty if it needs one. `value`: its default, null if --help shows
/// none.
void declare_flag(CLI::App& app, const std::string& name, const std::string& group,
                  const std::string& placeholder, const std::string& help, const std::string& bare,
                  const nlohmann::json& value);

/// The text that was given for a flag of `app`, which is "true" or "false" for a switch; nothing if
/// the flag was not given, or if there is no such flag. Throws Error(usage) if it was given more
/// than once, or if a flag that needs a text was given an empty one.
std::optional<std::string> given_text(const CLI::App& app, const std::string& name);

/// Ties a table of options to a command line.
template <class Target>
class Arguments {
 public:
  explicit Arguments(std::vector<OptionField<Target>> fields) : fields_(std::move(fields)) {}

  /// Declares every field on `app`, which must outlive the calls of the members below. --help shows
  /// the values of a new target as defaults.
  void declare(CLI::App& app) {
    app_ = &app;
    for (const auto& field : fields_) {
      declare_flag(app, field.name, field.group, field.placeholder, field.help, field.bare,
                   field.get ? field.get(Target{}) : nlohmann::json());
    }
  }

  const std::vector<OptionField<Target>>& fields() const { return fields_; }

  /// As `given_text`.
  std::optional<std::string> text(const std::string& name) const { return given_text(*app_, name); }

  bool given(const std::string& name) const { return text(name).has_value(); }
  /// The same as a function, which refers to this object.
  GivenOption given() const {
    return [this](const std::string& name) { return given(name); };
  }

  /// Stores every flag that was given, in table order. Throws Error(usage).
  void apply(Target& target) const {
    for (const auto& field : fields_) {
      if (const auto given = text(field.name)) {
        field.set(target, given->empty() && !field.bare.empty() ? field.bare : *given);
      }
    }
  }

 private:
  std::vector<OptionField<Target>> fields_;
  const CLI::App* app_ = nullptr;
};

}  // namespace heliograph::cli
