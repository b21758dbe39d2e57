#pragma once

#include "heliograph/options.hpp"
#include "heliograph/partition.hpp"

namespace heliograph {

/// What the exchanges of a run send, which ExchangedRows::automatic leaves open.
struct ExchangeChoice {
  bool covers = false;        ///< Rows and partial sums of covers instead of boundary rows.
  bool kept_columns = false;  ///< As ExchangeOptions::kept_columns.
};

/// Whether a run with these options may exchange rows and sums of covers.
bool may_cover(const TrainOptions& options);

/// What a run over `ranks` ranks sends: ExchangedRows::automatic takes what costs less, by given
/// rates and never by measured time. `covers`: null if the run may not use them.
ExchangeChoice choose_exchange(const TrainOptions& options, const CoverCounts* covers, int ranks);

/// These options with `choice` instead of what they leave open.
ExchangeOptions with_choice(ExchangeOptions options, ExchangeChoice choice);

}  // namespace heliograph
