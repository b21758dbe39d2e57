#pragma once

#include <cstdint>
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

/// "2 too few" or "1 too many".
inline std::string difference(std::int64_t have, std::int64_t wanted) {
  return have < wanted ? fmt::format("{} too few", wanted - have)
                       : fmt::format("{} too many", have - wanted);
}

}  // namespace heliograph
