#pragma once

#include <memory>

#include "comm/exact_halo.hpp"
#include "layers/graph_operator.hpp"
#include "layers/model.hpp"
#include "train/metrics.hpp"
#include "train/run_plan.hpp"

namespace heliograph {

/// One rank's part of a graph (the whole one or the induced one): structure, input features,
/// labels, the precomputed first aggregation, and exact halos for evaluation.
class RankGraph {
 public:
  /// `room`: where memory is counted. Ranks build together: halo sizes and the precomputed
  /// aggregation are exchanged on Channel::evaluation.
  RankGraph(const RunPlan& plan, RankData data, Communicator& comm, Kernels& kernels,
            MemoryRoom room, MemoryAccount* account);
  RankGraph(const RankGraph&) = delete;
  RankGraph& operator=(const RankGraph&) = delete;

  const Shard& shard() const { return shard_; }
  const GraphOperator& op() const { return op_; }
  const LocalLabels& labels() const { return labels_; }
  ExactHalo& exact_halo() const { return *exact_halo_; }
  /// Features that the model does not read are gone once their aggregation is made.
  ModelInput input() const;
  /// Class of training rows, -1 for others (multi-class).
  const std::vector<std::int32_t>& target() const { return target_; }
  /// 1 for training rows (multi-label).
  const std::vector<std::uint8_t>& mask() const { return mask_; }

 private:
  void mark_training_rows();
  void precompute(Communicator& comm, Kernels& kernels, MemoryRoom room, MemoryAccount* account);

  Shard shard_;
  CountedBytes structure_;  ///< Of the shard, labels, targets and masks.
  GraphOperator op_;
  FeatureMatrix x_, aggregated_;
  LocalLabels labels_;
  std::vector<std::int32_t> target_;
  std::vector<std::uint8_t> mask_;
  std::unique_ptr<ExactHalo> exact_halo_;
};

}  // namespace heliograph
