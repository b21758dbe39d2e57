#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

namespace heliograph::cli {

/// --help of a page's width: grouped flags, wrapped explanations, defaults in brackets.
std::shared_ptr<CLI::Formatter> help_formatter(std::string usage);

}  // namespace heliograph::cli
