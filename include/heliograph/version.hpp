#pragma once

namespace heliograph {

/// "MAJOR.MINOR.PATCH".
const char* version() noexcept;

}  // namespace heliograph
