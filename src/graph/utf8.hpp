#pragma once

#include <string_view>

namespace heliograph {

/// Whether a text is UTF-8 (RFC 3629): no overlong forms, no surrogates, no code above U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace heliograph
