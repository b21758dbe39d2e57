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

/// The names of options that change nothing in this model because it has no hidden layer.
std::vector<std::string> options_of_hidden_layers_only(const ModelOptions& model);

}  // namespace heliograph
