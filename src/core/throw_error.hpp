#pragma once

#include <fmt/format.h>

#include "heliograph/error.hpp"

namespace heliograph {

/// Throws an Error whose sentence is made as fmt::format makes it.
template <class... Args>
[[noreturn]] void throw_error(ErrorCode code, fmt::format_string<const Args&...> sentence,
                              const Args&... args) {
  throw Error(code, fmt::format(sentence, args...));
}

}  // namespace heliograph
