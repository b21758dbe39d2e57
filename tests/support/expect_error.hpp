#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "heliograph/error.hpp"

namespace heliograph::test {

/// What a test keeps of an Error that was thrown.
struct Caught {
  ErrorCode code{};
  std::string text;
};

/// What a text must contain: one string, or several in braces.
class Words {
 public:
  Words(const char* word) : words_{word} {}
  Words(std::string word) : words_{std::move(word)} {}
  Words(std::initializer_list<std::string> words) : words_(words) {}
  auto begin() const { return words_.begin(); }
  auto end() const { return words_.end(); }

 private:
  std::vector<std::string> words_;
};

/// The Error that `action` throws; its text is empty if nothing is thrown.
Caught caught_from(const std::function<void()>& action);

/// The same, but the test fails if nothing is thrown.
Caught error_of(const std::function<void()>& action);

/// Fails the test unless the Error has this code and its text contains all of `words`.
void expect_error(ErrorCode code, const Words& words, const Caught& caught);

/// The same of the Error that `action` throws. Returns its text.
std::string expect_error(ErrorCode code, const Words& words, const std::function<void()>& action);

}  // namespace heliograph::test
