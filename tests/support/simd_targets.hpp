#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace heliograph {

/// The names of the instruction sets that are compiled in and that this CPU has, best first.
std::vector<std::string> simd_targets();

/// From here on the best instruction set is the one of that name ("AVX2"). False if there is none.
bool limit_simd_targets(std::string_view best);

/// Runs body() once for each instruction set that is compiled in and that this CPU has. Not
/// thread-safe: no other kernel may run at the same time.
void for_each_simd_target(const std::function<void()>& body);

}  // namespace heliograph
