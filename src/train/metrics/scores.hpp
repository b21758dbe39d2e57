#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"
#include "core/matrix.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/io.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

/// Scores of the training, validation and test nodes; NaN where a set is empty.
struct Scores {
  double train, validation, test;
};

/// The labels of a rank's nodes, and which nodes are trained and scored on.
struct LocalLabels {
  Task task = Task::multiclass;
  std::int32_t classes = 0;
  std::vector<std::int32_t> class_of;    ///< Multi-class, by inner row.
  std::vector<std::uint8_t> indicators;  ///< Multi-label, inner rows x classes.
  std::vector<float> values;             ///< Regression, by inner row.
  TargetStatistics target;               ///< Regression.
  std::vector<Role> role;                ///< By inner row.

  /// Regression: the prediction that a model's output `z` stands for.
  float predicted_value(float z) const {
    return static_cast<float>(target.mean + target.deviation * static_cast<double>(z));
  }

  /// Values that a prediction has for each node: its class, or a 0 or 1 for each class.
  std::size_t prediction_cols() const {
    return task == Task::multilabel ? static_cast<std::size_t>(classes) : 1;
  }
};

/// Exact scores over the nodes of all ranks, equal on every rank. Counts are summed as integers,
/// and the ROC AUC ranks all nodes at once (ties count half). Collective. accuracy: the share of
/// nodes whose class is predicted. f1: micro-averaged; with one class a node it equals accuracy.
/// macro_f1: as Metric says. auc and average_precision: rank nodes by the difference of the two
/// logits. r2 and rmse: of the values in the target's units, summed in fp64 in ascending order.
/// Where all targets of a set are equal, r2 is 1 if all predictions equal them and 0 otherwise; of
/// a single node it is NaN.
Scores distributed_scores(Metric metric, const LocalLabels& labels, ConstMatrixView logits,
                          Communicator& comm);

/// The metric to score a task with: `metric`, or what `automatic` stands for. Throws Error(usage)
/// if the metric does not suit the task.
Metric resolve_metric(Metric metric, Task task, std::int32_t classes);

/// Whether a metric of two classes ranks nodes by their score of class 1.
constexpr bool ranks_nodes(Metric metric) {
  return metric == Metric::auc || metric == Metric::average_precision;
}

constexpr bool lower_is_better(Metric metric) { return metric == Metric::rmse; }

/// Area under the ROC curve (Mann-Whitney); `positive` is 0 or 1. NaN unless there are nodes of
/// both kinds.
double roc_auc(std::vector<std::pair<float, std::uint8_t>> scored);

/// The sum over thresholds, highest first, of the precision times what the threshold adds to the
/// recall; nodes of equal scores share a threshold. NaN without a positive node.
double average_precision(std::vector<std::pair<float, std::uint8_t>> scored);

/// The class with the largest logit; the first among equals.
std::int32_t predicted_class(const float* logits, std::int64_t classes);

}  // namespace heliograph
