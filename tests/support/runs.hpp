#pragma once

#include <string>

#include "heliograph/options.hpp"

namespace heliograph::test {

/// Two layers of 16 over contiguous parts: a run that ends in milliseconds.
TrainOptions small_options(int ranks, int epochs);

/// As the command line spells it; also good as a part of a test's name.
std::string name_of(ModelKind kind);

}  // namespace heliograph::test
