#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heliograph {

/// Whether a code is a Unicode scalar value: one up to U+10FFFF that is no surrogate.
constexpr bool is_unicode_scalar(std::uint32_t code) {
  return code < 0xd800 || (code >= 0xe000 && code <= 0x10ffff);
}

/// The scalar values of a text, or nothing if it is not UTF-8 (RFC 3629: no overlong forms).
std::optional<std::u32string> decode_utf8(std::string_view text);

inline bool is_utf8(std::string_view text) { return decode_utf8(text).has_value(); }

/// Appends the UTF-8 form of a scalar value.
void append_utf8(std::string& out, std::uint32_t code);

}  // namespace heliograph
