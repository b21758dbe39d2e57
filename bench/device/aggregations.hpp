#pragma once

#include "device/data.hpp"
#include "device/results.hpp"
#include "device/timer.hpp"

namespace heliograph::bench {

/// Times aggregations at each degree and width, beside cuSPARSE's product where it can be loaded:
/// at the first degree and width of packed rows of every number of bits, else of 1 and 4 bits.
void time_aggregations(const Sizes& sizes, Data& data, Timer& timer);

}  // namespace heliograph::bench
