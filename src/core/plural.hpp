#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heliograph {

/// `noun` as it follows `count`: 1 epoch, 2 epochs, 0 classes, 3 entries.
inline std::string plural(std::int64_t count, std::string_view noun) {
  std::string text(noun);
  if (count == 1) return text;
  if (text.ends_with("ry")) return text.replace(text.size() - 1, 1, "ies");
  return text + (text.ends_with('s') ? "es" : "s");
}

/// "1 epoch", "2 epochs".
inline std::string counted(std::int64_t count, std::string_view noun) {
  return std::to_string(count) + ' ' + plural(count, noun);
}

/// "a, b or c"; `last` stands before the last of several names.
inline std::string listed(const std::vector<std::string>& names, std::string_view last = "or") {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool ends = i + 1 == names.size();
    if (i > 0) text += ends ? ' ' + std::string(last) + ' ' : std::string(", ");
    text += names[i];
  }
  return text;
}

}  // namespace heliograph
