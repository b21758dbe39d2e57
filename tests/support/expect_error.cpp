#include "support/expect_error.hpp"

#include <gtest/gtest.h>

namespace heliograph::test {

Caught caught_from(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

Caught error_of(const std::function<void()>& action) {
  const Caught caught = caught_from(action);
  EXPECT_NE(caught.text, "") << "no Error was thrown";
  return caught;
}

void expect_error(ErrorCode code, const Words& words, const Caught& caught) {
  EXPECT_EQ(static_cast<int>(caught.code), static_cast<int>(code)) << caught.text;
  for (const std::string& word : words) {
    EXPECT_NE(caught.text.find(word), std::string::npos)
        << "the Error: " << caught.text << "\nlacks: " << word;
  }
}

std::string expect_error(ErrorCode code, const Words& words, const std::function<void()>& action) {
  const Caught caught = error_of(action);
  expect_error(code, words, caught);
  return caught.text;
}

}  // namespace heliograph::test
