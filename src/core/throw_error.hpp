#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>

#include "heliograph/error.hpp"

namespace heliograph {

/// A sentence of the sources, which write options as flags ("--parts"), as this process writes it:
/// the library names options as config files do ("parts"), the command keeps the flags.
std::string spell_options(std::string_view sentence);

/// What an exception says, without the "[json.exception.type_error.302] " of the JSON library.
std::string reason_of(const std::exception& error);

/// Makes `spell_options` of this process keep the flags. Call it before other threads start.
void spell_options_as_flags() noexcept;

/// Throws an Error with a sentence that fmt::format makes from `sentence`, whose options are
/// spelled by `spell_options`, and from `args`, which stay as they are.
template <class... Args>
[[noreturn]] void throw_error(ErrorCode code, fmt::format_string<const Args&...> sentence,
                              const Args&... args) {
  const fmt::string_view text = sentence;
  throw Error(code, fmt::vformat(spell_options({text.data(), text.size()}),
                                 fmt::make_format_args(args...)));
}

}  // namespace heliograph
