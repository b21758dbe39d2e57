#include "train/plan/run_plan.hpp"

#include <fmt/format.h>

#include "core/throw_error.hpp"
#include "graph/split.hpp"
#include "heliograph/error.hpp"
#include "train/metrics/scores.hpp"

namespace heliograph {

void RunPlan::resolve_metric_and_check() {
  validate(options_);
  metric_ = resolve_metric(options_.metric, facts_.task, facts_.classes);
  const ModelOptions& model = options_.model;
  if (facts_.sparse_features && !model.precompute && !model.transform_first) {
    throw_error(ErrorCode::usage,
                "--no-precompute with --no-transform-first: sparse features are aggregated either "
                "before the first epoch or after the first product, so one of the two must stay");
  }
  // Early stopping needs validation scores.
  if (options_.patience > 0) {
    if (facts_.validation_nodes == 0) {
      throw_error(ErrorCode::usage, "--patience needs validation nodes; the split has none");
    }
    if (metric_ == Metric::auc && !facts_.validates_both_classes) {
      throw_error(ErrorCode::usage,
                  "--patience with --metric auc needs validation nodes of both classes");
    }
  }
  if (facts_.training_nodes == 0) {
    throw Error(ErrorCode::bad_input, "the split has no training node");
  }
}

std::string describe_split(const SplitChoice& choice, std::int64_t training,
                           std::int64_t validation, std::int64_t test) {
  return fmt::format("{}: {} nodes to train on, {} to validate, {} to test", split_text(choice),
                     training, validation, test);
}

std::string RunPlan::describe_split() const {
  return heliograph::describe_split(options_.split, facts_.training_nodes, facts_.validation_nodes,
                                    facts_.test_nodes);
}

}  // namespace heliograph
