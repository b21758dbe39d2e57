#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"
#include "heliograph/log.hpp"
#include "heliograph/options.hpp"
#include "heliograph/split.hpp"

namespace heliograph {

/// What a model says about every node, in the user's node order, row-major.
struct Outputs {
  /// nodes x prediction_cols: class ids (multi-class, 1 column) or 0/1 indicators (multi-label, one
  /// column for each class).
  std::vector<std::int32_t> predictions;
  std::int32_t prediction_cols = 1;
  /// Regression, in place of `predictions`: the predicted number of each node.
  std::vector<float> values;
  std::vector<float> scores;  ///< Metrics auc and average_precision only:
                              ///< the score of class 1 for each node.
  /// If asked for: nodes x classes, before softmax or sigmoid (regression: before the target's
  /// statistics are applied). The prediction is the class with the
  /// largest logit (the first among equals), or each class with a logit above 0.
  std::vector<float> logits;
  /// If asked for: nodes x embedding_cols, the input of the output map, or of the last layer if
  /// there is none. A model of one layer without input and output map has none.
  std::vector<float> embeddings;
  std::int32_t embedding_cols = 0;
};

/// Weights of a model, in fp32.
struct Tensor {
  std::string name;  ///< Such as "layers.0.self_weight" (docs/checkpoints.md).
  /// Inputs x outputs of a weight matrix, outputs of a vector.
  std::vector<std::uint64_t> shape;
  std::vector<float> values;  ///< Row-major.

  bool operator==(const Tensor&) const = default;
};

struct PredictOptions {
  int ranks = 1;             ///< Ranks of this process that share the work.
  int threads_per_rank = 0;  ///< 0 divides the cores of this process among its ranks, 1 at least.
  DeviceKind device = DeviceKind::cpu;
  bool logits = false, embeddings = false;  ///< Whether to return them.
  LogCallback log;
};

/// A trained model: its weights, and what they need to predict. A value without references; threads
/// may use one model at the same time.
struct Model {
  ModelOptions options;
  bool reproducible = false;  ///< Whether it was trained, and predicts, with sums in fp64.
  Normalization normalize = Normalization::none;  ///< What was done to the features.
  FeatureStatistics statistics;  ///< Of Normalization::standard: those that the weights have seen.
  TargetStatistics target;       ///< Of regression: those of the nodes that it was trained on.
  /// The kind of graph that it was trained on. Another kind is refused; unset, every kind is taken.
  std::optional<GraphKind> graph;
  std::int64_t feature_cols = 0;
  Task task = Task::multiclass;
  std::int32_t classes = 0;
  std::vector<std::string> class_names;  ///< One name for each class, or empty.
  std::optional<SplitChoice> split;      ///< The split of the run that trained it, if known.
  std::vector<Tensor> tensors;

  int epoch = -1;                    ///< The epoch after which the weights were these.
  Metric metric = Metric::accuracy;  ///< The metric of the scores, never `automatic`.
  /// Scores of these weights in the run that trained them; NaN if they were not evaluated, and for
  /// a set without nodes.
  double train_metric = std::numeric_limits<double>::quiet_NaN(), val_metric = train_metric,
         test_metric = train_metric;

  /// Reads a file that `save` wrote. `path` may also be a run directory, whose best.safetensors is
  /// read, or a checkpoint, whose weights are those after its last epoch. If the process died that
  /// replaced the run there, completes that first. Throws Error: bad_input (names the file and
  /// what is missing or damaged), usage (another process is replacing the run).
  static Model load(const std::filesystem::path& path);

  /// Writes a file in the safetensors format (docs/checkpoints.md), under a temporary name that is
  /// then renamed. Throws Error: usage (the file cannot be created), resource (disk full).
  void save(const std::filesystem::path& path) const;

  /// Predicts for every node of `dataset`, whose labels and splits may be absent and are not read.
  /// The number of ranks changes results only by rounding; with `reproducible`, not at all. Runs in
  /// this process and writes no file. Throws Error: mismatch (another number of feature columns,
  /// another kind of graph, a tensor of another size), usage (more ranks than nodes; embeddings of
  /// a model of one layer), bad_input (the graph, the features or the model's number of classes is
  /// not valid), resource (a number of nodes that no graph may have), numeric (an output is NaN or
  /// Inf).
  Outputs predict(const Dataset& dataset, const PredictOptions& request = {}) const;
};

/// Exact scores of a model, and its outputs.
struct EvaluationResult : Outputs {
  std::string split;     ///< The split that was scored, and its sizes; empty if none was.
  std::string unscored;  ///< Why there are no scores, which are then NaN; empty if there are.
  Metric metric = Metric::accuracy;  ///< The metric of the scores, never `automatic`.
  int ranks = 1;
  /// Scores on the three sets of the split; NaN for a set for which the metric is not defined: one
  /// without nodes, with one (r2), or with nodes of one class (auc and ap).
  double train_metric = 0, val_metric = 0, test_metric = 0;
};

/// Scores `model` on `dataset` with any number of ranks, which are threads or processes as in
/// `train`; rank 0 returns the result. The model decides its own options and the normalisation;
/// `options` decide split, metric, partition and transport. A data set without labels, or without
/// the splits of which `options` name one, gives outputs and no scores. Throws Error as `train`
/// does, and Error(mismatch) if the model does not fit the data set.
EvaluationResult evaluate(const Dataset& dataset, const TrainOptions& options, const Model& model,
                          const LogCallback& log = {});

/// The same on shards (heliograph/shards.hpp), which decide split and partition. Throws
/// Error(mismatch) too if their features were normalised otherwise than the model's.
EvaluationResult evaluate_shards(const std::filesystem::path& directory,
                                 const TrainOptions& options, const Model& model);

}  // namespace heliograph
