#include "cli/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "cli/foreign_flags.hpp"
#include "cli/help_formatter.hpp"
#include "cli/text.hpp"
#include "heliograph/error.hpp"
#include "heliograph/version.hpp"
#include "train/options/not_built.hpp"
#include "train/options/parse.hpp"

namespace heliograph::cli {
namespace {

using Commands = std::vector<Command>;

Commands all_commands() {
  return {train_command(),    eval_command(),      export_command(), import_command(),
          generate_command(), partition_command(), info_command()};
}

void declare(CLI::App& app, const Commands& commands) {
  app.formatter(help_formatter("heliograph COMMAND [options]"));
  app.set_help_flag("--help,-h", "Print this help.");
  app.set_version_flag("--version", version(), "Print the version.");
  app.allow_extras();
  for (const Command& command : commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.description);
    sub->formatter(help_formatter(fmt::format("heliograph {}{}", command.name, command.usage)));
    sub->set_help_flag("--help,-h", "Print this help.");
    sub->footer(command.footer);
    sub->allow_extras();
    sub->group("Commands");
    command.declare(*sub);
  }
  std::string footer = "\"heliograph COMMAND --help\" explains a command.\n\nNot built yet:";
  for (const NotBuilt& entry : kNotBuilt) {
    footer += fmt::format("\n  {:<24}  {}", entry.name, entry.purpose);
  }
  app.footer(footer);
}

[[noreturn]] void refuse_command(const std::string& word, const Commands& commands) {
  if (word.starts_with("-")) {
    throw Error(ErrorCode::usage,
                fmt::format("{} stands before the command; the command comes first, as in "
                            "\"heliograph train --data PATH\"",
                            word));
  }
  refuse_not_built("heliograph " + word);
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  const std::string near = nearest_spelling(word, names);
  throw Error(ErrorCode::usage,
              fmt::format("unknown command \"{}\"; {}", word,
                          near.empty() ? fmt::format("there are {}", listed(names, "and"))
                                       : fmt::format("did you mean \"{}\"?", near)));
}

[[noreturn]] void refuse_word(const std::string& word, const CLI::App& app,
                              const std::string& command, const Commands& commands) {
  if (!word.starts_with("-")) {
    std::string usual = "generate --out DIR";
    for (const char* flag : {"checkpoint", "data"}) {
      if (app.get_option_no_throw("--" + std::string(flag)) == nullptr) continue;
      usual = fmt::format("{} --{} PATH", command, flag);
      break;
    }
    throw Error(ErrorCode::usage,
                fmt::format("\"{}\" is not expected here: values follow their flag, as in "
                            "\"heliograph {}\"",
                            word, usual));
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  const std::string flag = word.substr(0, word.find('='));
  const std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::vector<std::string> owners;
  for (const Command& other : commands) {
    const CLI::App* sub = app.get_parent()->get_subcommand(other.name);
    if (sub->get_option_no_throw("--" + name) != nullptr) owners.push_back(other.name);
  }
  std::string hint;
  if (const char* answer = foreign_flag_answer(name)) {
    hint = fmt::format(": {}", answer);
  } else if (std::ranges::find(names, name) != names.end()) {
    hint = fmt::format("; did you mean --{}?", name);
  } else if (!owners.empty()) {
    hint = fmt::format(": it is a flag of heliograph {}", listed(owners));
  } else if (const std::string near = nearest_spelling(name, names); !near.empty()) {
    hint = fmt::format("; did you mean --{}?", near);
  }
  throw Error(ErrorCode::usage, fmt::format("unknown flag {}{} (heliograph {} --help lists all)",
                                            flag, hint, command));
}

/// The message of a command line that CLI11 cannot parse.
std::string parse_message(const CLI::ParseError& error) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return fmt::format("{} needs a value", text.substr(0, text.find(':')));
  }
  return text;
}

/// `help [COMMAND]` and `version` as the flags that they mean.
std::vector<std::string> spelled_as_flags(std::vector<std::string> words) {
  if (words.empty() || (words[0] != "help" && words[0] != "version")) return words;
  words[0].insert(0, "--");
  std::rotate(words.begin(), words.begin() + 1, words.end());
  return words;
}

}  // namespace

int run_command_line(const std::vector<std::string>& given) {
  const std::vector<std::string> words = spelled_as_flags(given);
  const Commands commands = all_commands();
  CLI::App app(
      "heliograph trains graph neural networks on whole graphs, split over K ranks\n"
      "that exchange as little as one bit per value.");
  declare(app, commands);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::usage, parse_message(error));
  }
  for (const Command& command : commands) {
    const CLI::App* sub = app.get_subcommand(command.name);
    if (!sub->parsed()) continue;
    if (app.remaining_size() > 0)
      refuse_word(app.remaining().front(), *sub, command.name, commands);
    if (sub->remaining_size() > 0)
      refuse_word(sub->remaining().front(), *sub, command.name, commands);
    return command.run(words);
  }
  if (app.remaining_size() > 0) refuse_command(app.remaining().front(), commands);
  const std::string help = app.help();
  std::fwrite(help.data(), 1, help.size(), stderr);
  return static_cast<int>(ErrorCode::usage);
}

}  // namespace heliograph::cli
