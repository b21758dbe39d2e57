#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "train/options/fields.hpp"

namespace heliograph::cli {

/// Text for --help: the default of a field, empty where it says nothing.
template <class Target>
std::string default_text(const OptionField<Target>& field, const Target& defaults) {
  if (!field.get || field.kind == FieldKind::toggle) return {};
  const nlohmann::json value = field.get(defaults);
  if (value.is_null()) return {};
  return value.is_string() ? value.template get<std::string>() : value.dump();
}

/// Ties a table of options to a command line.
template <class Target>
class Arguments {
 public:
  explicit Arguments(std::vector<OptionField<Target>> fields) : fields_(std::move(fields)) {}

  /// Declares every field on `app`, with the values of a new target shown in --help. Must outlive
  /// the calls of the members below.
  void declare(CLI::App& app) {
    app_ = &app;
    for (const auto& field : fields_) {
      CLI::Option* option = nullptr;
      if (field.kind == FieldKind::toggle) {
        option = app.add_flag("--" + field.name, field.help);
      } else {
        option = app.add_option("--" + field.name, field.help);
        option->type_name(field.placeholder)->default_str(default_text(field, Target{}));
      }
      option->take_last()->group(field.group);
    }
  }

  const std::vector<OptionField<Target>>& fields() const { return fields_; }

  bool given(const std::string& name) const { return app_->count("--" + name) > 0; }

  /// Stores every flag that was given, in table order. Throws Error(usage).
  void apply(Target& target) const {
    for (const auto& field : fields_) {
      const CLI::Option* option = app_->get_option("--" + field.name);
      if (option->count() > 0) field.set(target, option->results().back());
    }
  }

 private:
  std::vector<OptionField<Target>> fields_;
  const CLI::App* app_ = nullptr;
};

}  // namespace heliograph::cli
