#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/shard.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/options.hpp"
#include "heliograph/partition.hpp"

namespace heliograph {

/// What all ranks of a run share: resolved once, before ranks start, and read-only after.
/// The data set must outlive it.
class RunPlan {
 public:
  /// Validates options against the data, splits, normalises, partitions and indexes. Whether
  /// training fits into memory is checked before partitioning, and again once halos are known.
  /// Throws Error(usage, bad_input, resource).
  RunPlan(const Dataset& dataset, const TrainOptions& options, const LogCallback& log);
  RunPlan(const RunPlan&) = delete;
  RunPlan& operator=(const RunPlan&) = delete;

  const Dataset& dataset;
  const TrainOptions options;
  Metric metric;
  Split split;
  Features features;
  Partition partition;
  PartitionQuality quality;
  std::optional<Graph> transposed;  ///< Directed graphs only.
  std::vector<NodeId> train_nodes;  ///< Ascending.
  std::optional<NodeIndex> whole;
  std::optional<NodeIndex> induced;  ///< Inductive training only.

  int ranks() const { return partition.parts; }
  /// The index whose shards are trained on.
  const NodeIndex& training() const { return induced ? *induced : *whole; }
  const Graph* transpose_or_null() const { return transposed ? &*transposed : nullptr; }

 private:
  /// Refuses a run that cannot fit, as far as it is known by now.
  void check_memory(std::optional<std::int64_t> halo_rows) const;
};

}  // namespace heliograph
