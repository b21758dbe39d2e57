#pragma once

#include <cstdint>
#include <string>

#include "core/buffer.hpp"
#include "graph/shard.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/options.hpp"
#include "heliograph/partition.hpp"
#include "layers/feature_matrix.hpp"
#include "train/metrics.hpp"

namespace heliograph {

/// Which nodes a rank's graph has: those that are trained on (all, unless training is inductive),
/// or all.
enum class GraphScope : std::uint8_t { training, whole };

/// What every rank of a run knows of its graph, wherever the nodes are.
struct RunFacts {
  std::string name;
  std::int64_t nodes = 0;
  std::int64_t training_nodes = 0;  ///< Those whose loss is trained on.
  Task task = Task::multiclass;
  std::int32_t classes = 0;
  std::int64_t feature_cols = 0;
  bool sparse_features = false;
  int ranks = 1;
  PartitionQuality quality;
  std::string partition_hash;
};

/// What one rank holds of a graph (the whole one or the induced one) before training.
struct RankData {
  Shard shard;
  LocalLabels labels;
  FeatureMatrix features;  ///< Inner rows x feature columns.
};

/// What early stopping must know of a split.
struct ValidationNodes {
  std::int64_t count = 0;
  bool both_classes = false;  ///< Of a binary target.
};

/// What all ranks of a run share: resolved once, before ranks start, and read-only after.
class RunPlan {
 public:
  virtual ~RunPlan() = default;
  RunPlan(const RunPlan&) = delete;
  RunPlan& operator=(const RunPlan&) = delete;

  const TrainOptions& options() const { return options_; }
  const RunFacts& facts() const { return facts_; }
  Metric metric() const { return metric_; }  ///< Never `automatic`.

  /// `dataset_hash` of the whole data set; may read all of it.
  virtual std::string dataset_hash() const = 0;

  /// Size of the file that `rank` reads, bytes; 0 where ranks take their part of a data set that is
  /// in memory.
  virtual std::int64_t stored_bytes(int rank) const = 0;

  /// What `rank` holds of a graph, its features counted in `use`. Called by the ranks, at the same
  /// time. Throws Error: resource; from files also bad_input.
  virtual RankData load(int rank, GraphScope scope, MemoryUse use,
                        MemoryAccount* account) const = 0;

 protected:
  explicit RunPlan(const TrainOptions& options) : options_(options) {}

  /// Once options_ and facts_ stand: resolves the metric and refuses combinations that the data
  /// forbid. Throws Error(usage).
  void finish_resolving(const ValidationNodes& validation);

  TrainOptions options_;
  RunFacts facts_;
  Metric metric_ = Metric::automatic;
};

}  // namespace heliograph
