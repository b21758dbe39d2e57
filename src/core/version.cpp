#include "heliograph/version.hpp"

namespace heliograph {

const char* version() noexcept { return HELIOGRAPH_VERSION; }

}  // namespace heliograph
