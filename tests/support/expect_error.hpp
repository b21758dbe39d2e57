#pragma once

#include <gtest/gtest.h>

#include <string>

#include "heliograph/error.hpp"

namespace heliograph::test {

/// Fails the test unless `action()` throws an Error of this code whose text has `words` in it.
template <class Action>
void expect_error(ErrorCode code, const std::string& words, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos)
        << "said: " << error.what() << "\nwithout: " << words;
  }
}

}  // namespace heliograph::test
