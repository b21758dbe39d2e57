#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace heliograph::test {

/// How a run of the command ended.
struct Outcome {
  int code = -1;  ///< Exit code, or 128 + signal if a signal ended the process.
  std::string out;
  std::string err;
};

/// Runs the built command with `arguments`. `during` gets the process id while it runs.
Outcome run_command(const std::vector<std::string>& arguments,
                    const std::function<void(int)>& during = {});

/// Runs it with its standard error on a terminal of its own, `columns` wide.
Outcome run_on_terminal(const std::vector<std::string>& arguments, int columns);

/// Waits until `done` holds. Returns false after `seconds`.
bool wait_until(const std::function<bool()>& done, double seconds);

}  // namespace heliograph::test
