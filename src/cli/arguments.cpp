#include "cli/arguments.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "heliograph/error.hpp"

namespace heliograph::cli {

void declare_flag(CLI::App& app, const std::string& name, const std::string& group,
                  const std::string& placeholder, const std::string& help, const std::string& bare,
                  const nlohmann::json& value) {
  CLI::Option* option = nullptr;
  if (placeholder.empty()) {
    // --help shows the first name, which is the one that changes the default.
    const std::string on = "--" + name, off = "!--no-" + name;
    const bool default_on = value.is_boolean() && value.get<bool>();
    option = app.add_flag(default_on ? off + "," + on : on + "," + off, help);
  } else {
    option = app.add_option("--" + name, help)->type_name(placeholder);
    const std::string text = plain_text(value);
    if (!bare.empty()) {
      // CLI11 would take default_str as the value of a flag without one.
      option->expected(0, 1)->description(help + " [" + text + "]");
    } else if (!value.is_null()) {
      option->default_str(text);
    }
  }
  // `given_text` refuses a second one.
  option->take_last()->group(group);
}

std::optional<std::string> given_text(const CLI::App& app, const std::string& name) {
  const CLI::Option* option = app.get_option_no_throw("--" + name);
  if (option == nullptr || option->count() == 0) return std::nullopt;
  if (option->count() > 1) {
    const bool is_switch = option->get_lnames().size() > 1;
    throw Error(ErrorCode::usage,
                fmt::format("--{}{} is given {} times: give it once", name,
                            is_switch ? " (or --no-" + name + ")" : "", option->count()));
  }
  const std::string& text = option->results().back();
  const bool alone = option->get_expected_min() == 0;
  if (text.empty() && !alone)
    throw Error(ErrorCode::usage, fmt::format("--{} needs a value", name));
  return text;
}

}  // namespace heliograph::cli
