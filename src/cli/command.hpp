#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

namespace heliograph::cli {

/// One subcommand. Errors leave `run` as exceptions; main turns them into exit codes.
class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;
  virtual std::string description() const = 0;  ///< One sentence for the list of commands.
  virtual std::string usage() const = 0;        ///< What follows "heliograph NAME", with its space.
  virtual std::string footer() const { return {}; }
  /// False for a command that later work brings: it is not listed.
  virtual bool built() const { return true; }

  /// Adds the command's options to `app`, which outlives the command's use.
  virtual void declare(CLI::App& app) = 0;

  /// Runs with the parsed options; `words` are the arguments as given. Returns the exit code.
  virtual int run(const std::vector<std::string>& words) = 0;
};

std::unique_ptr<Command> make_train_command();
std::unique_ptr<Command> make_partition_command();
std::unique_ptr<Command> make_generate_command();
std::unique_ptr<Command> make_import_command();
std::unique_ptr<Command> make_info_command();
std::unique_ptr<Command> make_eval_command();
/// plan, report: refused with a sentence.
std::unique_ptr<Command> make_later_command(std::string name, std::string purpose);

}  // namespace heliograph::cli
