#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/buffer.hpp"
#include "train/metrics/scores.hpp"

namespace heliograph {

/// Predictions for nodes, one row each, in an order that their owner states.
struct Predictions {
  /// LocalLabels::prediction_cols() values a node: its class, or a 0 or 1 for each class.
  std::vector<std::int32_t> values;
  std::vector<float> scores;  ///< Metric::auc only: the score of class 1.
};

/// What a rank predicted for its nodes at the best epoch so far, by inner row; empty before the
/// first evaluation. Used by the rank's own thread.
class BestPredictions {
 public:
  /// `account` (may be null) counts the memory and must outlive the object.
  explicit BestPredictions(MemoryAccount* account) : bytes_(MemoryUse::evaluation, account) {}

  /// Replaces the predictions by those that follow from `logits`, one row for each of `labels`.
  void keep(ConstMatrixView logits, const LocalLabels& labels, Metric metric);
  /// Replaces the predictions by those of an earlier run.
  void restore(Predictions predictions);

  const Predictions& kept() const { return kept_; }

  /// Rank 0 receives the predictions of all ranks for a graph of `nodes` nodes, in the user's node
  /// order; other ranks receive nothing. `ids`: the user's number of each inner row. Collective.
  Predictions gather(std::span<const std::int64_t> ids, std::int64_t nodes,
                     Communicator& comm) const;

 private:
  void count_bytes();

  Predictions kept_;
  CountedBytes bytes_;
};

}  // namespace heliograph
