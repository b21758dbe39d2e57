#pragma once

#include <string>

#include "device/results.hpp"

namespace heliograph::bench {

struct Options {
  Sizes sizes;
  std::string json;  ///< Path of the file for results; empty for none.
};

/// Reads the command line. Throws std::invalid_argument.
Options parse(int argc, char** argv);

}  // namespace heliograph::bench
