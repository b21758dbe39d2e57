#pragma once

#include <span>
#include <string>
#include <string_view>

namespace heliograph {

/// Steps between two names: insert, delete or replace a character, or swap two neighbours
/// (optimal string alignment). Case counts as no difference, nor does '_' against '-'.
int edit_distance(std::string_view a, std::string_view b);

/// The candidate with the fewest steps to `name`, the first among equals; empty without candidates.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

}  // namespace heliograph
