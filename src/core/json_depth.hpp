#pragma once

#include <string_view>

namespace heliograph {

/// No file of ours nests arrays and objects so deeply. The JSON library copies and prints values by
/// recursion, which deeper ones would let overflow the stack.
inline constexpr int kMostJsonLevels = 64;

/// Whether a JSON text nests arrays and objects more than kMostJsonLevels deep.
inline bool nests_too_deeply(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '{')) {
      if (++depth > kMostJsonLevels) return true;
    } else if (!quoted && (c == ']' || c == '}')) {
      --depth;
    }
  }
  return false;
}

}  // namespace heliograph
