#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace heliograph {

/// The whole text, as std::from_chars reads it, or nothing (also where the number does not fit).
template <class T>
std::optional<T> parse_plain_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace heliograph
