#pragma once

#include "heliograph/options.hpp"
#include "train/options/fields.hpp"

namespace heliograph {

/// Adds the options of ModelOptions, under the heading "Model".
void add_model_fields(FieldTable<TrainOptions>& fields);

}  // namespace heliograph
