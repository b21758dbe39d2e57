#pragma once

#include <span>
#include <string>
#include <string_view>

namespace heliograph {

/// Optimal string alignment distance: insertions, deletions, replacements and swaps of neighbours
/// that turn `a` into `b`. Ignores case, and '_' equals '-'.
int edit_distance(std::string_view a, std::string_view b);

/// The first of the candidates with the least edit_distance to `name`; empty if even that is more
/// than a third of the name, so that it is another word rather than a slip.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace heliograph
