#pragma once

#include <cstdint>

namespace heliograph::test {

/// False in sanitizer builds, which own the allocator: tests that count skip there by name.
bool allocations_are_counted();

/// Heap allocations of any kind so far, by all threads of this test program.
std::int64_t allocations();

}  // namespace heliograph::test
