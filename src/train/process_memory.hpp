#pragma once

#include <cstdint>

namespace heliograph {

/// Largest resident set of this process so far, bytes; 0 where the system does not tell.
std::int64_t peak_rss_bytes();

/// Starts the peak anew from the present resident set. False where the system cannot.
bool reset_peak_rss();

}  // namespace heliograph
