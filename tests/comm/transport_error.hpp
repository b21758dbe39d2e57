#pragma once

#include <gtest/gtest.h>

#include <string>

#include "heliograph/error.hpp"

namespace heliograph::test {

struct Caught {
  ErrorCode code{};
  std::string text;
};

/// The Error that `action` throws; a test failure if it throws none.
template <class Action>
Caught error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

}  // namespace heliograph::test
