#pragma once

#include <string>

#include "heliograph/split.hpp"

namespace heliograph {

/// The value of --split as text, such as 0, random:60/20/20 or per-class:20/500/1000.
std::string split_text(const SplitChoice& choice);

/// Throws Error(usage) if no data set can have this split.
void check_split_choice(const SplitChoice& choice);

}  // namespace heliograph
