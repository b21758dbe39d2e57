#include "train/training_loss.hpp"

#include <cmath>
#include <limits>

namespace heliograph {

TrainingLoss::TrainingLoss(const RunPlan& plan, const RankGraph& graph, Kernels& kernels,
                           MemoryAccount* account)
    : graph_(graph),
      kernels_(kernels),
      task_(plan.facts().task),
      smoothing_(plan.options().loss.label_smoothing),
      terms_(static_cast<double>(plan.facts().training_nodes)) {
  const RunFacts& facts = plan.facts();
  if (task_ == Task::multilabel) terms_ *= facts.classes;
  if (plan.options().loss.class_weights == ClassWeights::none) return;
  const double nodes = terms_;
  terms_ = 0;
  for (const std::int64_t of_class : facts.training_of_class) {
    const auto count = static_cast<double>(of_class);
    weights_.push_back(static_cast<float>(nodes / (facts.classes * count)));
    terms_ += count * static_cast<double>(weights_.back());
  }
  placed_weights_ = Placed<float>(std::span<const float>(weights_), kernels.device(),
                                  MemoryUse::weights, account);
}

double TrainingLoss::loss_and_gradient(ConstMatrixView logits, MatrixView gradient) const {
  const auto scale = static_cast<float>(1.0 / terms_);
  const auto sum = [&] {
    switch (task_) {
      case Task::multilabel:
        return kernels_.binary_cross_entropy(logits, graph_.indicators(), graph_.mask(), scale,
                                             gradient);
      case Task::regression:
        return kernels_.squared_error(logits, graph_.target_values(), scale, gradient);
      case Task::multiclass:
        break;
    }
    return kernels_.softmax_cross_entropy(
        logits, {graph_.target(), placed_weights_.data(), smoothing_}, scale, gradient);
  };
  return sum() / terms_;
}

bool knows_loss_without_inputs(const TrainOptions& options, Task task) {
  return task == Task::multiclass || (task == Task::regression && options.init_from.empty());
}

std::optional<double> loss_without_inputs(const RunPlan& plan) {
  const RunFacts& facts = plan.facts();
  if (!knows_loss_without_inputs(plan.options(), facts.task)) return std::nullopt;
  if (facts.task == Task::regression) return 1;  // Targets have a mean of 0 and a variance of 1.
  // With one class there is nothing to learn, and no loss is too high.
  if (facts.only_training_class()) return std::numeric_limits<double>::infinity();
  const LossOptions& options = plan.options().loss;
  const bool balanced = options.class_weights == ClassWeights::balanced;
  const auto nodes = static_cast<double>(facts.training_nodes);
  std::vector<double> shares;  // Of the loss's terms, by class.
  double sum = 0;
  for (const std::int64_t of_class : facts.training_of_class) {
    const double own = static_cast<double>(of_class) / nodes;
    const double weight = balanced ? 1 / (facts.classes * own) : 1;
    const double smoothing = options.label_smoothing;
    shares.push_back(weight * ((1 - smoothing) * own + smoothing / facts.classes));
    sum += shares.back();
  }
  double loss = 0;  // The best probabilities are the shares over their sum.
  for (const double share : shares) loss -= share > 0 ? share * std::log(share / sum) : 0;
  return loss;
}

}  // namespace heliograph
