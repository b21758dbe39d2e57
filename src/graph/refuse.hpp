#pragma once

#include <filesystem>
#include <string>

#include "core/throw_error.hpp"

namespace heliograph {

/// Throws Error(bad_input) with the text "WHERE: SENTENCE", where fmt::format makes the sentence.
template <class... Args>
[[noreturn]] void refuse(const std::string& where, fmt::format_string<const Args&...> sentence,
                         const Args&... args) {
  throw_error(ErrorCode::bad_input, "{}: {}", where, fmt::format(sentence, args...));
}
template <class... Args>
[[noreturn]] void refuse(const std::filesystem::path& where,
                         fmt::format_string<const Args&...> sentence, const Args&... args) {
  refuse(where.string(), sentence, args...);
}

}  // namespace heliograph
