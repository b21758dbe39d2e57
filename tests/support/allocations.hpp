#pragma once

#include <cstdint>

namespace heliograph::test {

/// False in sanitizer builds, which replace the allocator. Tests that count allocations skip there.
bool allocations_are_counted();

/// The number of heap allocations so far, by all threads of this test program.
std::int64_t allocations();

}  // namespace heliograph::test
