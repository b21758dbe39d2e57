#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "heliograph/options.hpp"
#include "train/options/fields.hpp"

namespace heliograph {

/// Every training option that the command, a config file and run.json share.
/// `TrainOptions::partition.balance_split` is a pointer and has no field: the command resolves it.
std::span<const OptionField<TrainOptions>> train_option_fields();

/// The resolved options, keyed by flag names: what a config file may hold.
nlohmann::ordered_json options_to_json(const TrainOptions& options);

/// Stores every key of `object` in `options`. Throws Error(usage), see `apply_json`.
void options_from_json(const nlohmann::json& object, const std::string& origin,
                       TrainOptions& options);

}  // namespace heliograph
