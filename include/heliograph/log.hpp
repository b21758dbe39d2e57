#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace heliograph {

enum class LogLevel : std::uint8_t { debug, info, warning, error };

/// Receives the library's messages, from one thread at a time. An empty callback drops them.
using LogCallback = std::function<void(LogLevel, std::string_view)>;

}  // namespace heliograph
