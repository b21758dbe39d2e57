#pragma once

#include <string>
#include <vector>

namespace heliograph::cli {

/// Parses the arguments of the program, without its name, and runs the command that they name.
/// Returns the exit code. Throws Error(usage) for words that it does not know, and what the command
/// throws.
int run_command_line(const std::vector<std::string>& given);

}  // namespace heliograph::cli
