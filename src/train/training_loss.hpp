#pragma once

#include <optional>
#include <vector>

#include "core/kernels.hpp"
#include "core/placed.hpp"
#include "train/plan/rank_graph.hpp"
#include "train/plan/run_plan.hpp"

namespace heliograph {

/// The loss of one rank's training nodes, by task and LossOptions.
class TrainingLoss {
 public:
  /// The references must outlive this object.
  TrainingLoss(const RunPlan& plan, const RankGraph& graph, Kernels& kernels,
               MemoryAccount* account);

  /// This rank's part of the mean loss over the training nodes of all ranks, and its gradient.
  /// logits, gradient: inner rows x classes.
  double loss_and_gradient(ConstMatrixView logits, MatrixView gradient) const;

 private:
  const RankGraph& graph_;
  Kernels& kernels_;
  Task task_;
  float smoothing_;
  double terms_;  ///< What the sum of losses is divided by.
  std::vector<float> weights_;
  Placed<float> placed_weights_;
};

/// Whether `loss_without_inputs` gives a loss: not for multi-label, and not for numbers in the
/// scale of initial weights.
bool knows_loss_without_inputs(const TrainOptions& options, Task task);
/// The least training loss of logits that are the same at all nodes, which is reached without
/// looking at features or graph; nothing if that is not known.
std::optional<double> loss_without_inputs(const RunPlan& plan);

}  // namespace heliograph
