#pragma once

#include <string>

#include "device/results.hpp"

namespace heliograph::bench {

struct Options {
  Sizes sizes;
  std::string json;  ///< A file, or none.
};

/// Throws std::invalid_argument.
Options parse(int argc, char** argv);

}  // namespace heliograph::bench
