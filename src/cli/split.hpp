#pragma once

#include "heliograph/dataset.hpp"
#include "heliograph/options.hpp"

namespace heliograph::cli {

/// The split that `options` names, as the engine resolves it: for balancing training nodes.
/// Throws Error(usage) if the data set has no such split.
Split resolve_split(const Dataset& dataset, const TrainOptions& options);

}  // namespace heliograph::cli
