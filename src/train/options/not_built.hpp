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
    {"--model gatv2", "train a graph attention network with dynamic scores"},
};

/// Throws Error(usage) if `name` is in the list. `instead`: the end of the sentence.
void refuse_not_built(const std::string& name, const std::string& instead = "");

}  // namespace heliograph
