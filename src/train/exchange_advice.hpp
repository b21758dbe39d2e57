#pragma once

#include <span>

#include "core/site.hpp"
#include "heliograph/log.hpp"
#include "heliograph/options.hpp"
#include "staleness/stale_halo.hpp"

namespace heliograph {

/// Logs what a user should know of the exchanges of a run with several ranks before it begins:
/// options that bring nothing, or less than they seem to, and those that often cost score.
/// `sites`: those of the model.
void log_exchange_advice(const TrainOptions& options, const StaleHalo& halo,
                         std::span<const Site> sites, const LogCallback& log);

}  // namespace heliograph
