#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace heliograph::test {

/// The exit code and the output of a run of the command.
struct Outcome {
  int code = -1;  ///< Exit code, or 128 + signal if a signal ended the process.
  std::string out;
  std::string err;
};

/// Runs the built command with `arguments`. Calls during(process id) while it runs. If `unread`
/// is STDOUT_FILENO or STDERR_FILENO, that is a pipe that nobody reads.
Outcome run_command(const std::vector<std::string>& arguments,
                    const std::function<void(int)>& during = {}, int unread = -1);

/// Runs the command with its standard error on a terminal that is `columns` wide.
Outcome run_on_terminal(const std::vector<std::string>& arguments, int columns);

/// Waits until `done` holds. Returns false after `seconds`.
bool wait_until(const std::function<bool()>& done, double seconds);

}  // namespace heliograph::test
