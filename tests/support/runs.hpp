#pragma once

#include <functional>
#include <string>

#include "heliograph/error.hpp"
#include "heliograph/options.hpp"

namespace heliograph::test {

/// Two layers of 16 over contiguous parts: a run that ends in milliseconds.
TrainOptions small_options(int ranks, int epochs);

/// As the command line spells it; also good as a part of a test's name.
std::string name_of(ModelKind kind);

/// What the Error says that `action` throws; the test fails if none is thrown or its code differs.
std::string message_of(const std::function<void()>& action, ErrorCode code);

}  // namespace heliograph::test
