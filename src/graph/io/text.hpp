#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "core/parse_number.hpp"

namespace heliograph {

/// Makes a message that quotes a file fit for a terminal: replaces control characters and cuts it
/// after 300 bytes, since a "line" of a binary file may be very long.
inline std::string legible(std::string_view sentence) {
  constexpr std::size_t kMost = 300;
  std::string out(sentence.substr(0, kMost));
  if (sentence.size() > kMost) out += "...";
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') c = '?';
  }
  return out;
}

/// The text without tabs and blanks at both ends.
inline std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Whether a field of a table stands for a missing value: empty, or as pandas and R write one.
inline bool is_missing(std::string_view field) {
  constexpr std::string_view kMissing[] = {"", "nan", "NaN", "NA", "None", "null"};
  return std::ranges::find(kMissing, trim(field)) != std::end(kMissing);
}

/// Removes the first word from `text` and returns it; an empty word at the end. Tabs and blanks
/// separate words.
inline std::string_view take_word(std::string_view& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return text = {};
  const std::size_t end = text.find_first_of(" \t", first);
  const std::string_view word = text.substr(first, end - first);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end);
  return word;
}

/// The whole text as a number, which may start with +. Nothing if the text is not a number or the
/// number does not fit into T.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return parse_plain_number<T>(text);
}

}  // namespace heliograph
