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

/// The model that a run composes. Ranks that fetch the features of their halo round their parts of
/// gradients, so `reproducible` exchanges rows of attention's first layer instead.
ModelOptions composed_model(const TrainOptions& options);
/// Whether ranks of a run with these options exchange rows in epochs of training.
bool exchanges_rows(const TrainOptions& options);

/// Whether no exchange of a run waits for the rows of its own epoch.
inline bool all_late(const ExchangeOptions& options) {
  return options.staleness > 0 && options.stale_sites == "all";
}

/// The options with values that fit the model and learning-rate schedule of `before`, and that
/// `validate` refuses for those of `options`.
std::vector<std::string> misplaced_options(const TrainOptions& options, const TrainOptions& before);

/// Options that change nothing in a model, and why.
struct IdleOptions {
  std::vector<std::string> names;
  const char* reason;
};
std::vector<IdleOptions> idle_options(const ModelOptions& model);

}  // namespace heliograph
