#pragma once

#include <memory>
#include <optional>

#include "comm/exchange/exact_halo.hpp"
#include "layers/graph_operator.hpp"
#include "layers/network.hpp"
#include "train/metrics/scores.hpp"
#include "train/plan/run_plan.hpp"

namespace heliograph {

/// One rank's part of a graph, the whole or the induced one: structure, input features, labels, the
/// precomputed first aggregation or the halo's features, and exact halos for evaluation.
class RankGraph {
 public:
  /// `use`: the use that memory is counted as. `host` counts memory of the host, `account` memory
  /// that kernels read; they may be the same. Collective: halo sizes and features are exchanged on
  /// Channel::evaluation.
  RankGraph(const RunPlan& plan, RankData data, Communicator& comm, Kernels& kernels, MemoryUse use,
            MemoryAccount* host, MemoryAccount* account);
  RankGraph(const RankGraph&) = delete;
  RankGraph& operator=(const RankGraph&) = delete;

  const Shard& shard() const { return shard_; }
  const PlacedShard& placed() const { return *placed_; }
  const GraphOperator& op() const { return *op_; }
  /// Makes room for partial sums of up to `cols` columns, counted by `account`.
  void reserve_sums(std::int64_t cols, MemoryAccount* account) {
    op_->reserve_sums(cols, use_, account);
  }
  const LocalLabels& labels() const { return labels_; }
  ExactHalo& exact_halo() const { return *exact_halo_; }
  /// The input of the model. Features that only the precomputed aggregation needed have been freed.
  ModelInput input() const;
  // The loss reads these arrays, which kernels can access.
  /// Class of training rows, -1 for others (multi-class).
  const std::int32_t* target() const { return placed_target_.data(); }
  /// Standardised target of training rows, NaN for others (regression).
  const float* target_values() const { return placed_values_.data(); }
  /// LocalLabels::indicators (multi-label).
  const std::uint8_t* indicators() const { return placed_indicators_.data(); }
  /// 1 for training rows (multi-label).
  const std::uint8_t* mask() const { return placed_mask_.data(); }

 private:
  void mark_training_rows();
  /// Replaces the halo by rows and partial sums of covers.
  void cover(Communicator& comm, Kernels& kernels, MemoryAccount* account);
  /// The first aggregation. Sparse features are summed on the host, dense ones by the kernels.
  FeatureMatrix aggregate_features(Communicator& comm, Kernels& kernels, MemoryUse use,
                                   MemoryAccount* host, MemoryAccount* account) const;
  /// The features of inner nodes, then of halo nodes. It may take the former from x_.
  FeatureMatrix fetch_features(Communicator& comm, Kernels& kernels, MemoryUse use,
                               MemoryAccount* host, MemoryAccount* account);

  MemoryUse use_;
  Shard shard_;
  std::optional<PlacedShard> placed_;
  CountedBytes structure_;  ///< Counts the shard, labels, targets and masks.
  std::optional<GraphOperator> op_;
  FeatureMatrix x_, gathered_;
  FeatureView x_elsewhere_;  ///< If x_ is empty: rows of gathered_, or only the shape of x.
  LocalLabels labels_;
  std::vector<std::int32_t> target_;
  std::vector<std::uint8_t> mask_;
  std::vector<float> values_;
  Placed<std::int32_t> placed_target_;
  Placed<float> placed_values_;
  Placed<std::uint8_t> placed_indicators_, placed_mask_;
  std::unique_ptr<ExactHalo> exact_halo_;
};

}  // namespace heliograph
