#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"
#include "core/matrix.hpp"
#include "heliograph/dataset.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

/// Scores of the training, validation and test nodes; NaN where a set is empty.
struct Scores {
  double train, validation, test;
};

/// What a rank predicts for its nodes.
struct LocalLabels {
  Task task = Task::multiclass;
  std::int32_t classes = 0;
  std::vector<std::int32_t> class_of;    ///< Multi-class, by inner row.
  std::vector<std::uint8_t> indicators;  ///< Multi-label, inner rows x classes.
  std::vector<Role> role;                ///< By inner row.
};

/// Exact scores over all ranks, equal on each: counts are summed as integers, and the ROC AUC is
/// ranked over all nodes at once (ties count half).
/// accuracy: correct over all. f1: micro-averaged; for one class a node it equals accuracy.
/// auc: of the difference of the two logits.
Scores distributed_scores(Metric metric, const LocalLabels& labels, ConstMatrixView logits,
                          Communicator& comm);

/// The metric that is used for a task; resolves `automatic`. Throws Error(usage) if they do not
/// go together.
Metric resolve_metric(Metric metric, Task task, std::int32_t classes);

/// Area under the ROC curve (Mann-Whitney); `positive` is 0 or 1. NaN without both kinds.
double roc_auc(std::vector<std::pair<float, std::uint8_t>> scored);

/// argmax of a row; the first among equals.
std::int32_t predicted_class(const float* logits, std::int64_t classes);

}  // namespace heliograph
