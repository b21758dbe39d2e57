#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace heliograph {

enum class LogLevel : std::uint8_t { debug, info, warning, error };

/// Where library messages go. Called from one thread at a time; empty means silence.
using LogCallback = std::function<void(LogLevel, std::string_view)>;

}  // namespace heliograph
