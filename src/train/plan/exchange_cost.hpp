#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/options.hpp"
#include "heliograph/partition.hpp"
#include "train/plan/exchange_choice.hpp"
#include "train/plan/memory_needs.hpp"

namespace heliograph {

class Covers;

/// What an epoch of training on a partition sends, and what its ranks hold.
struct ExchangeCost {
  /// Rows of nodes and partial sums, forward and backward, all ranks together; the mean of epochs
  /// if they send kept columns only.
  std::int64_t row_bytes = 0;
  std::int64_t gradient_bytes = 0;    ///< Weight gradients, all ranks together.
  std::int64_t link_bytes = 0;        ///< Both, on the link from one rank to another that has most.
  MemoryNeeds memory;                 ///< The least memory of all ranks together.
  ExchangeChoice choice;              ///< `kept_columns` only if the model has rows that keep some.
  std::optional<CoverCounts> covers;  ///< If the exchange may use covers.
};

/// The exchange of these options with 32, 16, 8, 4, 2 and 1 bits in both directions, without those
/// that the model refuses.
std::vector<ExchangeOptions> at_all_bits(const TrainOptions& options);

/// The cost of each of `exchanges`, which replaces `options.exchange`, without training. Rows and
/// gradients are those that a run with these options counts. `split`: the one whose training nodes
/// an inductive run trains on; null if `options.inductive` is false. `covers`: those of the graph
/// that is trained on; null: they are found if an exchange may use them. Throws Error: as
/// `measure_partition`, and if the model cannot be trained on the data set.
std::vector<ExchangeCost> exchange_costs(const Dataset& dataset, const Partition& partition,
                                         const TrainOptions& options, const Split* split,
                                         std::span<const ExchangeOptions> exchanges,
                                         const Covers* covers = nullptr);

}  // namespace heliograph
