#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace heliograph {

/// Whether all of these numbers are in [1, count]: they would fit [0, count) if they did not count
/// from 1.
template <class Numbers>
bool fits_from_one(const Numbers& numbers, std::int64_t count) {
  return std::ranges::all_of(numbers, [&](std::int64_t n) { return n >= 1 && n <= count; });
}

/// What the refusal of a number out of range adds if all would fit from 1 and no option says so.
inline std::string from_one_hint(bool fits, const char* what = "nodes") {
  return fits ? fmt::format("; all would fit if 1 were subtracted: {} count from 0", what) : "";
}

}  // namespace heliograph
