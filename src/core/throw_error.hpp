#pragma once

#include <fmt/format.h>

#include "heliograph/error.hpp"

namespace heliograph {

/// Throws an Error with a sentence that fmt::format makes from `sentence` and `args`.
template <class... Args>
[[noreturn]] void throw_error(ErrorCode code, fmt::format_string<const Args&...> sentence,
                              const Args&... args) {
  throw Error(code, fmt::format(sentence, args...));
}

}  // namespace heliograph
