#include "train/training_loss.hpp"

#include <fmt/format.h>

#include "comm/collectives.hpp"
#include "core/throw_error.hpp"
#include "heliograph/error.hpp"

namespace heliograph {
namespace {

/// Training nodes of each class, over all ranks. Collective.
std::vector<std::int64_t> count_classes(const LocalLabels& labels, Communicator& comm) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(labels.classes), 0);
  for (std::size_t row = 0; row < labels.role.size(); ++row) {
    if (labels.role[row] == Role::train) ++counts[static_cast<std::size_t>(labels.class_of[row])];
  }
  AllReduce(comm, Channel::evaluation).sum(std::span<std::int64_t>(counts));
  return counts;
}

}  // namespace

TrainingLoss::TrainingLoss(const RunPlan& plan, const RankGraph& graph, Communicator& comm,
                           Kernels& kernels, MemoryAccount* account)
    : graph_(graph),
      kernels_(kernels),
      task_(plan.facts().task),
      smoothing_(plan.options().loss.label_smoothing),
      terms_(static_cast<double>(plan.facts().training_nodes)) {
  const RunFacts& facts = plan.facts();
  if (task_ == Task::multilabel) terms_ *= facts.classes;
  if (plan.options().loss.class_weights == ClassWeights::none) return;
  const std::vector<std::int64_t> counts = count_classes(graph.labels(), comm);
  const double nodes = terms_;
  terms_ = 0;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] == 0) {
      const std::string name =
          facts.class_names.empty() ? "" : fmt::format(" ({})", facts.class_names[c]);
      throw_error(ErrorCode::bad_input,
                  "--class-weights balanced: class {}{} has no training node; use another split, "
                  "or --class-weights none",
                  c, name);
    }
    const auto count = static_cast<double>(counts[c]);
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

}  // namespace heliograph
