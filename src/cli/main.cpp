#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "cli/command.hpp"
#include "cli/help_formatter.hpp"
#include "heliograph/error.hpp"
#include "heliograph/train.hpp"
#include "heliograph/version.hpp"
#include "train/options/fields.hpp"

namespace heliograph::cli {
namespace {

constexpr int unexpected_failure = 1;

using Commands = std::vector<Command>;

/// Refused with a sentence.
Command later_command(const std::string& name, const std::string& purpose) {
  return {.name = name,
          .description = fmt::format("Not built yet: {}.", purpose),
          .usage = " (not built yet)",
          .declare = [](CLI::App&) {},
          .run = [name, purpose](const auto&) -> int {
            throw Error(ErrorCode::usage,
                        fmt::format("\"heliograph {}\" ({}) is not built yet", name, purpose));
          },
          .built = false};
}

Commands all_commands() {
  return {train_command(),
          eval_command(),
          import_command(),
          generate_command(),
          partition_command(),
          info_command(),
          later_command("plan", "predict the time and memory of a run"),
          later_command("report", "draw the results of runs")};
}

void declare(CLI::App& app, const Commands& commands) {
  app.formatter(help_formatter("heliograph COMMAND [options]"));
  app.set_help_flag("--help,-h", "Print this help.");
  app.set_version_flag("--version", version(), "Print the version.");
  app.allow_extras();
  std::string later;
  for (const Command& command : commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.description);
    sub->formatter(help_formatter(fmt::format("heliograph {}{}", command.name, command.usage)));
    sub->set_help_flag("--help,-h", "Print this help.");
    sub->footer(command.footer);
    sub->allow_extras();
    sub->group(command.built ? "Commands" : "");
    command.declare(*sub);
    if (!command.built) later += (later.empty() ? "" : ", ") + command.name;
  }
  app.footer(
      fmt::format("\"heliograph COMMAND --help\" explains a command. Not built yet: {}.", later));
}

[[noreturn]] void refuse_command(const std::string& word, const Commands& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (command.built) names.push_back(command.name);
  }
  throw Error(ErrorCode::usage, fmt::format("unknown command \"{}\"; did you mean \"{}\"?", word,
                                            nearest_spelling(word, names)));
}

[[noreturn]] void refuse_word(const std::string& word, const CLI::App& app,
                              const std::string& command) {
  if (!word.starts_with("-")) {
    throw Error(ErrorCode::usage,
                fmt::format("\"{}\" is not expected here: values follow their flag, as in "
                            "\"heliograph {} --data PATH\"",
                            word, command));
  }
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) flags.push_back(option->get_name());
  const std::string flag = word.substr(0, word.find('='));
  throw Error(ErrorCode::usage, fmt::format("unknown flag {}; did you mean {}? (heliograph {} "
                                            "--help lists all)",
                                            flag, nearest_spelling(flag, flags), command));
}

/// CLI11's own complaints, in the words of the rest.
std::string rephrase(const CLI::ParseError& error) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return fmt::format("{} needs a value", text.substr(0, text.find(':')));
  }
  return text;
}

int dispatch(const std::vector<std::string>& words) {
  const Commands commands = all_commands();
  CLI::App app(
      "heliograph: full-graph training of graph neural networks over K ranks,\n"
      "which signal each other with as little as one bit a value.");
  declare(app, commands);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::usage, rephrase(error));
  }
  for (const Command& command : commands) {
    const CLI::App* sub = app.get_subcommand(command.name);
    if (!sub->parsed()) continue;
    if (app.remaining_size() > 0) refuse_word(app.remaining().front(), *sub, command.name);
    if (command.built && sub->remaining_size() > 0) {
      refuse_word(sub->remaining().front(), *sub, command.name);
    }
    return command.run(words);
  }
  if (app.remaining_size() > 0) refuse_command(app.remaining().front(), commands);
  const std::string help = app.help();
  std::fwrite(help.data(), 1, help.size(), stderr);
  return static_cast<int>(ErrorCode::usage);
}

int complain(const char* sentence, int code) {
  std::fprintf(stderr, "heliograph: error: %s\n", sentence);
  return code;
}

int guarded(const std::vector<std::string>& words) {
  const int out_of_resources = static_cast<int>(ErrorCode::resource);
  try {
    const int code = dispatch(words);
    // What was printed may still sit in a buffer that a full disk refuses.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      return complain("standard output cannot be written", out_of_resources);
    }
    return code;
  } catch (const Error& error) {
    return complain(error.what(), static_cast<int>(error.code()));
  } catch (const std::bad_alloc&) {
    return complain("out of memory", out_of_resources);
  } catch (const std::length_error&) {
    return complain("a size does not fit into memory", out_of_resources);
  } catch (const std::system_error& error) {
    return complain(error.what(), out_of_resources);
  } catch (const std::exception& error) {
    return complain(fmt::format("unexpected: {}", error.what()).c_str(), unexpected_failure);
  }
}

}  // namespace
}  // namespace heliograph::cli

int main(int argc, char** argv) {
  const int code = heliograph::cli::guarded(std::vector<std::string>(argv + 1, argv + argc));
  if (heliograph::devices_hang()) {
    // What runs at an ordinary end may wait for messages that will never be done.
    std::fflush(nullptr);
    std::_Exit(code);
  }
  return code;
}
