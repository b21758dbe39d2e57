#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "heliograph/model.hpp"
#include "train/metrics/scores.hpp"

namespace heliograph {

/// What one rank's pass over its inner rows gave.
struct LocalOutputs {
  ConstMatrixView logits;         ///< inner rows x classes.
  std::vector<float> embeddings;  ///< inner rows x embedding_cols, or empty.
  std::int64_t embedding_cols = 0;
};

/// Rank 0 receives the predictions of all ranks for a graph of `nodes` nodes, in the user's node
/// order, embeddings if ranks have them, and the logits if `keeps_logits`; other ranks receive
/// nothing. `ids`: the user's number of each inner row. Collective.
Outputs gather_outputs(const LocalOutputs& mine, const LocalLabels& labels, Metric metric,
                       bool keeps_logits, std::span<const std::int64_t> ids, std::int64_t nodes,
                       Communicator& comm);

}  // namespace heliograph
