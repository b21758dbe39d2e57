#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heliograph/options.hpp"

namespace heliograph {

/// Whether the user gave the option of this name, be it with its default value.
using GivenOption = std::function<bool(const std::string& name)>;

/// As `validate`, and refuses an option that is given where it has no meaning, even if its value is
/// the default, with which `validate` cannot tell whether it is given. Throws Error(usage).
void validate(const TrainOptions& options, const GivenOption& given);

/// The options with values that `validate` refuses for this model and learning-rate schedule.
std::vector<std::string> misplaced_options(const TrainOptions& options);

/// Options that change nothing in a model, and why.
struct IdleOptions {
  std::vector<std::string> names;
  const char* reason;
};
std::vector<IdleOptions> idle_options(const ModelOptions& model);

}  // namespace heliograph
