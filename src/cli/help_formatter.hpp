#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

namespace heliograph::cli {

/// Formats --help: flags in groups, help texts wrapped to the width of a page, defaults in
/// brackets. `usage`: the line of usage.
std::shared_ptr<CLI::Formatter> help_formatter(std::string usage);

}  // namespace heliograph::cli
