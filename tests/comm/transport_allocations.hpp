#pragma once

#include <cstdint>

namespace heliograph::test {

/// Calls of operator new so far, by all threads of this test program.
std::int64_t allocations();

}  // namespace heliograph::test
