#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "heliograph/options.hpp"

namespace heliograph {

template <class Target>
struct OptionField;

/// Every training option that the command, config files and run.json share. OptionField is in
/// fields.hpp.
std::span<const OptionField<TrainOptions>> train_option_fields();

/// The options keyed by flag names, as a config file may hold them.
nlohmann::ordered_json options_to_json(const TrainOptions& options);

/// The same for a file that is read in other directories: paths of partition files are absolute.
nlohmann::ordered_json options_for_elsewhere(TrainOptions options);

/// "random:60/20/20, seed 3": what decides the split of a data set.
std::string seeded_split(const TrainOptions& options);

/// Gives options of a run of an earlier version, which may lack some, the meaning that they had.
template <class Json>
void complete_earlier_options(Json& object) {
  // All exchanges were late.
  if (object.is_object() && !object.contains("stale-sites")) object["stale-sites"] = "all";
}

/// Stores every key of `object` in `options`. Throws Error(usage), see `apply_json`.
void options_from_json(const nlohmann::json& object, const std::string& origin,
                       TrainOptions& options);

}  // namespace heliograph
