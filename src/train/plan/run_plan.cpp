#include "train/plan/run_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/plural.hpp"
#include "core/throw_error.hpp"
#include "graph/split.hpp"
#include "graph/task_name.hpp"
#include "heliograph/error.hpp"
#include "layers/compose.hpp"
#include "train/metrics/scores.hpp"
#include "train/options/values.hpp"

namespace heliograph {

void RunPlan::resolve_exchange() {
  const CoverCounts* const covers = may_cover(options_) ? &*facts_.covers : nullptr;
  exchange_ = with_choice(options_.exchange, purpose_.exchange
                                                 ? *purpose_.exchange
                                                 : choose_exchange(options_, covers, facts_.ranks));
}

void require_trainable(const ModelOptions& model, const std::string& name, bool sparse_features,
                       const std::optional<WeightRange>& weights) {
  if (sparse_features && exchanges_features(model) && !model.transform_first) {
    throw_error(
        ErrorCode::usage,
        "--no-transform-first: sparse features are aggregated either before the first epoch, "
        "which --no-precompute and --eps-learned turn off, or after the first product");
  }
  if (weights && weights->least < 0 && propagation_of(model).scales() > 0) {
    throw_error(ErrorCode::bad_input,
                "'{}': the edge {} -> {} has the weight {}, and --model {} divides by sums of "
                "weights: take --model gin, or read the data with --ignore-weights",
                name, weights->source, weights->target, weights->least, choice_name(model.kind));
  }
}

std::optional<std::size_t> RunFacts::only_training_class() const {
  const auto has_nodes = [](std::int64_t count) { return count > 0; };
  if (std::ranges::count_if(training_of_class, has_nodes) != 1) return std::nullopt;
  return std::ranges::find_if(training_of_class, has_nodes) - training_of_class.begin();
}

std::string RunFacts::class_text(std::size_t c) const {
  return class_names.empty() ? fmt::format("class {}", c)
                             : fmt::format("class {} ({})", c, class_names[c]);
}

void RunPlan::resolve_metric_and_check() {
  validate(options_);
  metric_ = resolve_metric(options_.metric, facts_.task, facts_.classes);
  const ModelOptions& model = options_.model;
  require_trainable(model, facts_.name, facts_.sparse_features, facts_.weights);
  if (facts_.task != Task::multiclass) {
    const auto refuse = [&](const char* option) {
      throw_error(ErrorCode::usage,
                  "--{} needs one class a node; this data set has {}, and its loss knows neither "
                  "classes' weights nor smoothing",
                  option, label_text(facts_.task));
    };
    if (options_.loss.label_smoothing > 0) refuse("label-smoothing");
    if (options_.loss.class_weights != ClassWeights::none) refuse("class-weights balanced");
  }
  const auto empty = std::ranges::find(facts_.training_of_class, 0);
  if (options_.loss.class_weights == ClassWeights::balanced &&
      empty != facts_.training_of_class.end()) {
    const auto c = static_cast<std::size_t>(empty - facts_.training_of_class.begin());
    throw_error(ErrorCode::bad_input,
                "--class-weights balanced: {} has no training node; use another split, or "
                "--class-weights none",
                facts_.class_text(c));
  }
  // Early stopping needs validation scores.
  if (options_.patience > 0) {
    if (facts_.validation_nodes == 0) {
      throw_error(ErrorCode::usage, "--patience needs validation nodes; the split has none");
    }
    if (metric_ == Metric::r2 && facts_.validation_nodes < 2) {
      throw_error(ErrorCode::usage, "--patience with --metric r2 needs 2 validation nodes");
    }
    if (ranks_nodes(metric_) && !facts_.validates_both_classes) {
      throw_error(ErrorCode::usage,
                  "--patience with --metric {} needs validation nodes of both classes",
                  choice_name(metric_));
    }
  }
  if (facts_.training_nodes == 0) {
    throw Error(ErrorCode::bad_input, "the split has no training node");
  }
  const std::int64_t rows = options_.inductive ? facts_.training_nodes : facts_.nodes;
  if (purpose_.training && model.norm == NormLayer::batch && rows < 2) {
    throw_error(ErrorCode::usage,
                "--norm batch normalises over the nodes of the training graph, which has 1: use "
                "--norm layer");
  }
}

PartitionOptions cut_of(const TrainOptions& options) {
  PartitionOptions cut = options.partition;
  cut.balance_train |= options.inductive && cut.partitioner == Partitioner::metis;
  return cut;
}

std::string describe_split(const SplitChoice& choice, std::int64_t training,
                           std::int64_t validation, std::int64_t test) {
  return fmt::format("{}: {} to train on, {} to validate, {} to test", split_text(choice),
                     counted(training, "node"), validation, test);
}

std::string describe_covers(const CoverCounts& covers) {
  return fmt::format("an exchange sends {} and {} instead of {}", counted(covers.rows, "row"),
                     counted(covers.sums, "partial sum"), counted(covers.boundary_rows, "row"));
}

void log_covers(const RunPlan& plan, const LogCallback& log) {
  const auto& covers = plan.facts().covers;
  if (!log || !covers || plan.options().exchange.rows == ExchangedRows::boundary) return;
  log(LogLevel::info, (plan.covers() ? "covers: " : "boundary rows, since with covers ") +
                          describe_covers(*covers));
}

void log_edge_weights(const RunPlan& plan, const LogCallback& log) {
  const auto& weights = plan.facts().weights;
  if (!log || !weights) return;
  const ModelOptions& model = plan.options().model;
  log(LogLevel::info, fmt::format("edge weights from {} to {}", weights->least, weights->most));
  if (attends(model)) {
    log(LogLevel::warning,
        fmt::format("model {} does not use the weights of edges", choice_name(model.kind)));
  } else if (weights->least == 0 && weights->most == 0) {
    log(LogLevel::warning,
        spell_options("every edge has the weight 0, so nodes learn only from their own features: "
                      "--ignore-weights gives every edge the weight 1"));
  }
}

std::string RunPlan::describe_split() const {
  return heliograph::describe_split(options_.split, facts_.training_nodes, facts_.validation_nodes,
                                    facts_.test_nodes);
}

}  // namespace heliograph
