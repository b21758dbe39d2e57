#pragma once

#include "graph/shard.hpp"
#include "layers/feature_matrix.hpp"
#include "train/metrics.hpp"

namespace heliograph {

/// What one rank holds of a graph (the whole one or the induced one) before training.
struct RankData {
  Shard shard;
  LocalLabels labels;
  FeatureMatrix features;  ///< Inner rows x feature columns.
};

}  // namespace heliograph
