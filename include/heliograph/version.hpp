#pragma once

namespace heliograph {

/// The library's version, "MAJOR.MINOR.PATCH".
const char* version() noexcept;

}  // namespace heliograph
