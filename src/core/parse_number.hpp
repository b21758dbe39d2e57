#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace heliograph {

/// The number that std::from_chars reads; nullopt if text is left over or it does not fit T.
template <class T>
std::optional<T> parse_plain_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace heliograph
