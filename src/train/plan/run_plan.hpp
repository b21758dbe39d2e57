#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/buffer.hpp"
#include "graph/edge_weights.hpp"
#include "graph/shard.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"
#include "heliograph/options.hpp"
#include "heliograph/partition.hpp"
#include "layers/feature_matrix.hpp"
#include "train/metrics/scores.hpp"
#include "train/plan/exchange_choice.hpp"
#include "train/plan/row_blocks.hpp"

namespace heliograph {

/// The nodes of a graph: those that training uses, which are all unless it is inductive, or all.
enum class GraphScope : std::uint8_t { training, whole };

/// Facts about the whole graph of a run, which every rank knows.
struct RunFacts {
  std::string name;
  std::int64_t nodes = 0;
  std::int64_t training_nodes = 0;  ///< Nodes that contribute to the loss.
  std::int64_t validation_nodes = 0, test_nodes = 0;
  std::vector<std::int64_t> training_of_class;  ///< Task::multiclass: training nodes, by class.
  Task task = Task::multiclass;
  std::int32_t classes = 0;
  bool directed = false;
  std::optional<WeightRange> weights;  ///< Of the edges; none if all are 1.
  std::int64_t feature_cols = 0;
  bool sparse_features = false;
  bool validates_both_classes = false;   ///< For two classes: there are validation nodes of each.
  FeatureStatistics statistics;          ///< Of Normalization::standard; else empty.
  TargetStatistics target;               ///< Of regression.
  std::vector<std::string> class_names;  ///< One for each class, or empty.
  int ranks = 1;
  PartitionQuality quality;
  std::string partition_hash;
  /// What a training exchange sends with covers; unset if none were found.
  std::optional<CoverCounts> covers;

  GraphKind graph_kind() const { return {directed, weights.has_value()}; }
  /// The class that all training nodes have, if there is one.
  std::optional<std::size_t> only_training_class() const;
  /// "class 3", with its name if it has one.
  std::string class_text(std::size_t c) const;
};

/// One rank's part of a graph, the whole or the induced one, as it is loaded.
struct RankData {
  Shard shard;
  LocalLabels labels;
  FeatureMatrix features;  ///< Inner rows x feature columns.
};

/// What a plan is made for.
struct PlanPurpose {
  bool training = true;  ///< False: weights are only scored, in less memory than training needs.
  /// The statistics for Normalization::standard; empty: those of the data set.
  FeatureStatistics statistics = {};
  /// The statistics of a regression target; unset: those of the training nodes.
  std::optional<TargetStatistics> target = {};
  bool finds_covers = false;  ///< Finds covers even if the run's exchanges do not need them.
  /// What ExchangedRows::automatic has become in the run that is resumed; unset: it is resolved.
  std::optional<ExchangeChoice> exchange = {};
};

/// Throws Error if a model cannot be trained on the data set `name` with such features (usage) or
/// weights of edges (bad_input).
void require_trainable(const ModelOptions& model, const std::string& name, bool sparse_features,
                       const std::optional<WeightRange>& weights);

/// How a run with these options cuts its graph: an inductive run also balances training nodes.
PartitionOptions cut_of(const TrainOptions& options);

/// A split and its sizes: "random:60/20/20: 6 nodes to train on, 2 to validate, 2 to test".
std::string describe_split(const SplitChoice& choice, std::int64_t training,
                           std::int64_t validation, std::int64_t test);

/// What all ranks of a run share. It is complete before ranks start, and read-only afterwards.
class RunPlan {
 public:
  virtual ~RunPlan() = default;
  RunPlan(const RunPlan&) = delete;
  RunPlan& operator=(const RunPlan&) = delete;

  const TrainOptions& options() const { return options_; }
  const RunFacts& facts() const { return facts_; }
  Metric metric() const { return metric_; }  ///< Never `automatic`.
  /// The exchange of the options, with what ExchangedRows::automatic becomes.
  const ExchangeOptions& exchange() const { return exchange_; }
  bool covers() const { return exchange_.rows == ExchangedRows::cover; }
  /// In how many blocks of rows training passes run.
  int blocks() const {
    const std::int64_t rows = options_.inductive ? facts_.training_nodes : facts_.nodes;
    return row_blocks(options_, rows, facts_.ranks);
  }

  std::string describe_split() const;

  /// The `dataset_hash` of the whole data set. May read all of it.
  virtual std::string dataset_hash() const = 0;

  /// Size in bytes of the file that `rank` reads; 0 if the data set is in memory.
  virtual std::int64_t stored_bytes(int rank) const = 0;

  /// Loads one rank's part of a graph; `account` counts its features as `use`. Ranks call it at the
  /// same time. Throws Error: resource; from files also bad_input.
  virtual RankData load(int rank, GraphScope scope, MemoryUse use,
                        MemoryAccount* account) const = 0;

 protected:
  RunPlan(const TrainOptions& options, PlanPurpose purpose)
      : options_(options), exchange_(options.exchange), purpose_(std::move(purpose)) {}

  /// Called when options_ and facts_ are set: sets the metric. Throws Error: usage (options that do
  /// not suit the data), bad_input (no training node, at all or of a class that is to be balanced).
  void resolve_metric_and_check();
  /// Sets what `exchange` returns. Called when facts_.ranks is known, and facts_.covers if the run
  /// may use covers.
  void resolve_exchange();

  TrainOptions options_;
  ExchangeOptions exchange_;
  PlanPurpose purpose_;
  RunFacts facts_;
  Metric metric_ = Metric::automatic;
};

/// "an exchange sends 2 rows and 1 partial sum instead of 5 rows".
std::string describe_covers(const CoverCounts& covers);

/// Logs what covers send instead of boundary rows, if the run uses them or has decided not to.
void log_covers(const RunPlan& plan, const LogCallback& log);

/// Logs the range of the graph's edge weights, if it has any.
void log_edge_weights(const RunPlan& plan, const LogCallback& log);

}  // namespace heliograph
