#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "core/arena.hpp"
#include "core/throw_error.hpp"
#include "graph/validate.hpp"
#include "heliograph/model.hpp"
#include "train/agreement.hpp"
#include "train/checkpoint/model_file.hpp"
#include "train/checkpoint/trainer_state.hpp"
#include "train/launch.hpp"
#include "train/options/values.hpp"
#include "train/plan/dataset_plan.hpp"
#include "train/plan/shard_plan.hpp"
#include "train/process_memory.hpp"
#include "train/processes.hpp"

namespace heliograph {
namespace {

constexpr const char* kOrigin = "the weights to score";

/// `options`, with those of the model in place of others, and without training.
TrainOptions options_of(const TrainOptions& options, const Model& model) {
  TrainOptions o = options;
  o.model = model.options;
  o.normalize = model.normalize;
  o.exchange = ExchangeOptions();
  o.optimizer = OptimizerOptions();
  o.loss = LossOptions();
  o.checkpoint = CheckpointOptions();
  o.init_from.clear();
  o.epochs = o.eval_every = 1;
  o.patience = 0;
  return o;
}

void score_rank(const RunPlan& plan, const Model& model, Communicator& comm,
                EvaluationResult& result) {
  require_agreement(plan, &model, nullptr, comm);
  Arena arena(static_cast<std::size_t>(address_space_of_a_rank(comm.size())));
  MemoryAccount account(&arena);
  Trainer trainer(plan, plan.load(comm.rank(), GraphScope::training, MemoryUse::features, &account),
                  comm, &account);
  set_weights(model, kOrigin, trainer);
  const auto [scores, mine] = trainer.evaluate(-1, plan.options().keep_embeddings);
  const RankGraph& graph = trainer.evaluated();
  Outputs outputs = gather_outputs(mine, graph.labels(), plan.metric(), plan.options().keep_logits,
                                   graph.shard().global_ids, plan.facts().nodes, comm);
  if (comm.rank() != 0) return;
  static_cast<Outputs&>(result) = std::move(outputs);
  result.train_metric = scores.train;
  result.val_metric = scores.validation;
  result.test_metric = scores.test;
}

void require_graph(const Model& model, GraphKind kind) {
  const std::string other = why_other_graph(model, kind);
  if (!other.empty()) throw Error(ErrorCode::mismatch, fmt::format("{}: {}", kOrigin, other));
}

using MakeScoredPlan =
    FunctionRef<std::unique_ptr<const RunPlan>(const TrainOptions&, PlanPurpose)>;

EvaluationResult score(const Model& model, const TrainOptions& options, const LogCallback& log,
                       MakeScoredPlan make_plan) {
  EvaluationResult result;
  join_processes(options.transport, [&] {
    const auto plan =
        make_plan(options_of(options, model), {false, model.statistics, model.target});
    result.metric = plan->metric();
    result.ranks = plan->facts().ranks;
    result.split = plan->describe_split();
    launch_ranks(result.ranks, {.transport = options.transport, .phase = RunPhase::scoring}, log,
                 [&](Communicator& comm) { score_rank(*plan, model, comm, result); });
  });
  if (std::isnan(result.train_metric) && std::isnan(result.val_metric) &&
      std::isnan(result.test_metric)) {
    result.unscored =
        fmt::format("{} is defined for no set of the split", choice_name(result.metric));
  }
  return result;
}

/// The data set with labels and a split that only fill their places, for outputs without scores.
Dataset with_any_targets(const Dataset& dataset, const Model& model) {
  if (model.classes < 1 || model.classes > kMaxClasses) {
    throw_error(ErrorCode::bad_input, "{}: {} classes: a model has 1 to {}", kOrigin, model.classes,
                kMaxClasses);
  }
  // They are as long as the graph's arrays, because its number of nodes is only checked later.
  const Array<std::int64_t>& offsets = dataset.graph.offsets;
  const std::size_t nodes = offsets.empty() ? 0 : offsets.size() - 1;
  Dataset filled = dataset;
  filled.labels = Labels();
  filled.labels.task = model.task;
  filled.labels.classes = model.classes;
  if (model.task == Task::multiclass) {
    filled.labels.class_of = std::vector<std::int32_t>(nodes, 0);
  } else if (model.task == Task::regression) {
    filled.labels.values = std::vector<float>(nodes, 0.0F);
  } else {
    const auto values = nodes * static_cast<std::size_t>(model.classes);
    filled.labels.indicators = std::vector<std::uint8_t>(values, 0);
    filled.labels.labelled = std::vector<std::uint8_t>(nodes, 1);
  }
  filled.class_names.clear();
  filled.splits = {{std::vector<Role>(nodes, Role::train)}};
  return filled;
}

/// Why the data set cannot be scored; empty if it can.
std::string why_unscored(const Dataset& dataset, const TrainOptions& options) {
  if (!any_labelled(dataset.labels)) return fmt::format("'{}' has no labels", dataset.name);
  if (std::holds_alternative<GivenSplit>(options.split) && dataset.splits.empty()) {
    return spell_options(fmt::format("'{}' holds no split; --split can draw one", dataset.name));
  }
  return {};
}

EvaluationResult evaluate_split(const Dataset& dataset, const TrainOptions& options,
                                const Model& model, const LogCallback& log) {
  require_fit(model, fmt::format("{} on '{}'", kOrigin, dataset.name), dataset.features.cols,
              dataset.labels.task, dataset.labels.classes);
  require_graph(model, dataset.graph.kind());
  return score(model, options, log, [&](const TrainOptions& of_model, PlanPurpose purpose) {
    auto plan = std::make_unique<const DatasetPlan>(dataset, of_model, log, std::move(purpose));
    log_edge_weights(*plan, log);
    return plan;
  });
}

}  // namespace

EvaluationResult evaluate(const Dataset& dataset, const TrainOptions& options, const Model& model,
                          const LogCallback& log) {
  const std::string unscored = why_unscored(dataset, options);
  Dataset known = dataset;
  if (any_labelled(dataset.labels)) {
    const std::string origin = fmt::format("{} on '{}'", kOrigin, dataset.name);
    known = with_classes_of(model, origin, std::move(known));
    // Labels must fit even if there is no split to score.
    require_fit(model, origin, known.features.cols, known.labels.task, known.labels.classes);
    warn_of_unnamed_classes(model, origin, dataset.class_names, log);
  }
  if (unscored.empty()) return evaluate_split(known, options, model, log);
  TrainOptions o = options;
  o.split = GivenSplit();
  EvaluationResult result = evaluate_split(with_any_targets(known, model), o, model, log);
  result.train_metric = result.val_metric = result.test_metric = std::nan("");
  result.split.clear();
  result.unscored = unscored;
  return result;
}

EvaluationResult evaluate_shards(const std::filesystem::path& directory,
                                 const TrainOptions& options, const Model& model) {
  return score(model, options, nullptr, [&](const TrainOptions& of_model, PlanPurpose purpose) {
    auto plan = std::make_unique<const ShardPlan>(directory, of_model, std::move(purpose));
    const RunFacts& facts = plan->facts();
    require_fit(model, kOrigin, facts.feature_cols, facts.task, facts.classes);
    require_same_classes(model, kOrigin, facts.class_names);
    require_graph(model, facts.graph_kind());
    if (plan->options().normalize != model.normalize) {
      throw_error(ErrorCode::mismatch,
                  "the shards in {} were made with --normalize {}, but the weights were trained "
                  "with {}",
                  directory.string(), choice_name(plan->options().normalize),
                  choice_name(model.normalize));
    }
    return plan;
  });
}

Outputs Model::predict(const Dataset& dataset, const PredictOptions& request) const {
  TrainOptions o;
  o.split = GivenSplit();
  o.metric = metric;
  o.reproducible = reproducible;
  o.partition.parts = request.ranks;
  o.transport.kind = TransportKind::threads;
  o.transport.threads_per_rank = request.threads_per_rank;
  o.transport.device = request.device;
  o.keep_logits = request.logits;
  o.keep_embeddings = request.embeddings;
  return evaluate_split(with_any_targets(dataset, *this), o, *this, request.log);
}

}  // namespace heliograph
