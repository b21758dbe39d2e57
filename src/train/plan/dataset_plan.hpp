#pragma once

#include <optional>
#include <vector>

#include "graph/covers.hpp"
#include "graph/shard.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"
#include "train/plan/run_plan.hpp"

namespace heliograph {

/// The plan of a run on a data set in memory, which must outlive the plan.
class DatasetPlan final : public RunPlan {
 public:
  /// Checks options against the data, splits, normalises, partitions and indexes. A plan to train
  /// is also checked for whether it fits into memory, before partitioning and again when halos are
  /// known. Throws Error(usage, bad_input, mismatch, resource).
  DatasetPlan(const Dataset& dataset, const TrainOptions& options, const LogCallback& log,
              PlanPurpose purpose = {});
  /// The same for a given partition, without the checks of memory.
  DatasetPlan(const Dataset& dataset, Partition partition, const TrainOptions& options,
              PlanPurpose purpose = {});

  std::string dataset_hash() const override { return heliograph::dataset_hash(dataset_); }
  std::int64_t stored_bytes(int /*rank*/) const override { return 0; }
  RankData load(int rank, GraphScope scope, MemoryUse use, MemoryAccount* account) const override;

 private:
  void resolve();
  void count_roles();
  void index(Partition partition);
  void find_covers();
  /// Throws Error(resource) if the run cannot fit into memory. `halo_rows`: nothing if not yet
  /// known.
  void check_memory(std::optional<std::int64_t> halo_rows) const;
  /// Warns if the bytes of an epoch take long on emulated links.
  void warn_of_slow_links(const LogCallback& log) const;
  LocalLabels labels_of(const std::vector<std::int64_t>& ids) const;
  FeatureMatrix features_of(const std::vector<std::int64_t>& ids, MemoryUse use,
                            MemoryAccount* account) const;

  const Dataset& dataset_;
  const bool checks_memory_;
  Split split_;
  Features features_;
  Partition partition_;
  std::optional<Graph> transposed_;  ///< Directed graphs only.
  std::vector<NodeId> train_nodes_;  ///< Ascending.
  std::optional<NodeIndex> whole_;
  std::optional<NodeIndex> induced_;  ///< Inductive training only.
  /// Of the whole and of the induced graph; unset unless `exchange` or `purpose` asks for covers.
  std::optional<Covers> whole_covers_, induced_covers_;
};

}  // namespace heliograph
