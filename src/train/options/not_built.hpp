#pragma once

#include <string>

namespace heliograph {

/// Something that users may ask for and that no build offers yet.
struct NotBuilt {
  const char* name;  ///< As a user types it.
  const char* purpose;
};

/// The only list of it: command line help, errors and documentation follow it.
inline constexpr NotBuilt kNotBuilt[] = {
    {"heliograph plan", "predict the time and memory of a run"},
    {"heliograph report", "draw the results of runs"},
};

/// Throws Error(usage) if `name` is in the list.
void refuse_not_built(const std::string& name);

}  // namespace heliograph
