#pragma once

#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

/// Training's exchange in the same bits without lag, and the exact one: fp32, of all columns.
ExchangeOptions synchronous_exchange(ExchangeOptions exchange);
ExchangeOptions exact_exchange(ExchangeOptions exchange);

/// Of the exchanges that BitsPolicy::trend may make of this one, those that take the most memory:
/// first without lag and then, in fewer bits, with that of this one. None for other policies.
std::vector<ExchangeOptions> trend_exchanges(const ExchangeOptions& exchange);

/// Whether a BitsPolicy may give rows other bits than the options do.
bool may_change_bits(const TrainOptions& options);

/// The exchanges that a guarded run may have one after the other, beginning with its own: each is
/// synchronous and has twice the bits of the one before, up to 8. Rows that choose their bits count
/// as rows of 2, and stop choosing.
std::vector<ExchangeOptions> raised_exchanges(const ExchangeOptions& exchange);

/// Whether TrainOptions::guard has anything to do: ranks exchange rows, their exchange can be
/// raised, and the loss without inputs is known.
bool guards(const TrainOptions& options, Task task);

}  // namespace heliograph
