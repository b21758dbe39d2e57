#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.hpp"

namespace heliograph::cli {

/// One subcommand.
struct Command {
  std::string name;
  std::string description;  ///< One sentence for the list of commands.
  std::string usage = {};   ///< What follows "heliograph NAME", with its space.
  std::string footer = {};
  /// Adds the command's options to `app`, which outlives the command's use.
  std::function<void(CLI::App& app)> declare = {};
  /// Runs with the parsed options; `words` are the arguments as given. Returns the exit code.
  /// Errors leave it as exceptions; main turns them into exit codes.
  std::function<int(const std::vector<std::string>& words)> run = {};
  bool built = true;  ///< False for a command that later work brings: it is not listed.
};

/// `command`, whose options are `fields`, and which calls `run` with those that were given.
template <class Request>
Command with_fields(Command command, std::vector<OptionField<Request>> fields,
                    int (*run)(const Arguments<Request>&)) {
  const auto arguments = std::make_shared<Arguments<Request>>(std::move(fields));
  command.declare = [arguments](CLI::App& app) { arguments->declare(app); };
  command.run = [arguments, run](const std::vector<std::string>&) { return run(*arguments); };
  return command;
}

Command train_command();
Command partition_command();
Command generate_command();
Command import_command();
Command info_command();
Command eval_command();

}  // namespace heliograph::cli
