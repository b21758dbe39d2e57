#pragma once

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
  std::string usage = {};  ///< What follows "heliograph NAME" in the line of usage, space included.
  std::string footer = {};  ///< The end of its --help.
  /// Declares the command's flags on `app`, which must outlive the calls of `run`.
  std::function<void(CLI::App& app)> declare = {};
  /// Runs with the flags that `app` has parsed; `words` are the arguments as given. Returns the
  /// exit code. main turns exceptions into exit codes.
  std::function<int(const std::vector<std::string>& words)> run = {};
};

/// Returns `command` with a flag for each of `fields`, and with `run` as its action. `run` gets the
/// flags that the user gave.
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
Command export_command();

}  // namespace heliograph::cli
