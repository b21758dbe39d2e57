#include "heliograph/train.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/collectives.hpp"
#include "core/arena.hpp"
#include "core/function_ref.hpp"
#include "core/plural.hpp"
#include "core/throw_error.hpp"
#include "heliograph/shards.hpp"
#include "layers/compose.hpp"
#include "staleness/exchange_policy.hpp"
#include "train/agreement.hpp"
#include "train/beginning.hpp"
#include "train/checkpoint/model_file.hpp"
#include "train/checkpoint/saver.hpp"
#include "train/checkpoint/trainer_state.hpp"
#include "train/exchange_advice.hpp"
#include "train/gather_values.hpp"
#include "train/guard.hpp"
#include "train/guarded_callbacks.hpp"
#include "train/launch.hpp"
#include "train/plan/dataset_plan.hpp"
#include "train/plan/derived_exchanges.hpp"
#include "train/plan/rank_memory.hpp"
#include "train/plan/shard_plan.hpp"
#include "train/process_memory.hpp"
#include "train/processes.hpp"
#include "train/run/output_file.hpp"
#include "train/trainer.hpp"

namespace heliograph {
namespace {

/// Epochs after which a run should have learned something.
constexpr int kEpochsToLearn = 20;

std::optional<double> known(double score) {
  return std::isnan(score) ? std::nullopt : std::optional<double>(score);
}

/// Sets the means over epochs.
void average_bytes(TrainResult& result) {
  const auto epochs = static_cast<std::int64_t>(result.epochs.size());
  if (epochs == 0) return;
  TrafficBytes& mean = result.bytes_per_epoch;
  for (const EpochReport& report : result.epochs) {
    mean.halo_forward += report.bytes.halo_forward;
    mean.halo_backward += report.bytes.halo_backward;
    mean.allreduce += report.bytes.allreduce;
    result.fp32_bytes_per_epoch += report.fp32_bytes;
  }
  for (std::int64_t* bytes :
       {&mean.halo_forward, &mean.halo_backward, &mean.allreduce, &result.fp32_bytes_per_epoch}) {
    *bytes /= epochs;
  }
}

/// The run of one rank once its data are loaded.
class RankRun {
 public:
  RankRun(const RunPlan& plan, RankData data, Communicator& comm, const TrainCallbacks& callbacks,
          MemoryAccount& account)
      : plan_(plan),
        options_(plan.options()),
        comm_(comm),
        callbacks_(callbacks),
        trainer_(plan, std::move(data), comm, &account),
        checkpoints_(plan, comm, trainer_, callbacks.before_saving, callbacks.log),
        state_(options_.patience, plan.metric(), comm),
        limit_(loss_without_inputs(plan)),
        best_bytes_(MemoryUse::evaluation, &account),
        stop_sum_(comm, Channel::evaluation, &account) {
    const LogCallback log = is_root() ? callbacks.log : LogCallback();
    if (guards(options_, plan.facts().task)) {
      guard_.emplace(plan, limit_.value(), trainer_, state_.guard, log, &account);
    } else if (options_.guard && !limit_ && log) {
      log(LogLevel::warning,
          spell_options("--guard has no effect: what the loss would be without inputs is unknown "
                        "for several labels a node, and for regression with --init-from"));
    }
    if (log && comm.size() > 1) {
      log_exchange_advice(options_, trainer_.halo(), trainer_.model().sites(), log);
    }
  }

  MemoryAccount& memory() { return trainer_.memory(); }
  const Parameters& parameters() { return trainer_.model().parameters(); }
  /// What this rank allocates after setup, but for the first epochs.
  MemoryNeeds memory_to_come() { return trainer_.memory_to_come(); }

  /// Prepares the trainer. Weights that the run begins with are set before, and a run is resumed
  /// after that.
  void prepare() {
    const Uncounted uncounted(state_.evaluation_bytes);
    trainer_.prepare();
  }

  void begin_with(const Model& weights) {
    set_weights(weights, options_.init_from.string(), trainer_);
  }

  void resume(const CheckpointManifest& manifest) {
    restore_run(manifest, options_.checkpoint.resume, comm_, trainer_, state_);
    count_best_model();
    if (is_root() && callbacks_.log) {
      const std::string epochs = counted(state_.epochs, "epoch");
      if (state_.best.exhausted()) {
        callbacks_.log(LogLevel::warning,
                       fmt::format("the run has ended after {}{}", epochs,
                                   spell_options(", by --patience; a larger one goes on")));
      } else if (state_.epochs < options_.epochs) {
        callbacks_.log(LogLevel::info, fmt::format("continuing after {}, from {}", epochs,
                                                   options_.checkpoint.resume.string()));
      } else {
        callbacks_.log(LogLevel::warning,
                       fmt::format("the run has had its {}{}", epochs,
                                   options_.optimizer.schedule == Schedule::cosine
                                       ? "; its learning rate has ended too"
                                       : spell_options("; a larger --epochs goes on")));
      }
    }
    // The checkpoint of the last epoch may lack an evaluation; see run_epochs.
    if (state_.epochs == options_.epochs && due_only_at_end()) evaluate(state_.reports.back());
    if (is_root() && callbacks_.on_resume) callbacks_.on_resume(state_.reports);
  }

  /// Runs epochs until the last one has run, a rank asks to stop, or patience has run out. Returns
  /// which of these ended the run, as TrainResult::stop_reason.
  std::string run_epochs() {
    if (is_root()) {
      state_.reports.reserve(static_cast<std::size_t>(std::min(options_.epochs, 1 << 16)));
    }
    // What other ranks still do before their first epoch may wait for devices.
    if (comm_.sends_in_groups()) undisturbed([] {});
    if (guard_) guard_->begin(state_.epochs);
    while (state_.epochs < options_.epochs && !state_.best.exhausted()) {
      const std::optional<GuardAction> action = guard_ ? guard_->act(state_.epochs) : std::nullopt;
      if (action) state_.best.forgive();
      std::optional<Verification> verified = verify_if_due();
      EpochEnd end = trainer_.run_epoch(state_.epochs, [this] { return take_requests(); });
      EpochReport& report = end.report;
      report.verification = std::move(verified);
      ++state_.epochs;
      report.guard = action;
      if (guard_) guard_->watch(report);
      if (end.records) undisturbed([this] { trainer_.device().record(); });
      const bool last = state_.epochs == options_.epochs;
      // A stopped run that can be resumed must not lack the scores of its last epoch.
      const bool evaluates = !end.asked.stop || checkpoints_.enabled();
      if (evaluates && evaluation_due()) evaluate(report);
      if (is_root()) {
        state_.reports.push_back(report);
        warn_if_nothing_is_learned(report.loss);
      }
      // An evaluation that is due only because the run ends is no part of the checkpoint: a run
      // that resumes it with more epochs does without.
      std::optional<RunState> unscored;
      const std::int64_t unscored_bytes = state_.evaluation_bytes.count();
      if (evaluates && last && due_only_at_end()) {
        if (checkpoints_.enabled()) unscored.emplace(state_);
        evaluate(report);
        if (is_root()) state_.reports.back() = report;
      }
      const bool stops = report_epoch(report) || end.asked.stop;
      const bool ends = stops || last || state_.best.exhausted();
      if (checkpoints_.due(state_.epochs, stops || end.asked.save, ends)) {
        const std::int64_t evaluation_bytes = state_.evaluation_bytes.count();
        if (unscored) unscored->evaluation_bytes.set(unscored_bytes);
        const bool saved = checkpoints_.save(unscored ? *unscored : state_, stops);
        if (saved && end.asked.save && is_root() && callbacks_.log) {
          callbacks_.log(LogLevel::info, fmt::format("saved the checkpoint after {}",
                                                     counted(state_.epochs, "epoch")));
        }
        state_.evaluation_bytes.set(evaluation_bytes);
      }
      if (stops) return "interrupted";
    }
    return state_.best.exhausted() ? "early_stopping" : "completed";
  }

  /// Gathers what the ranks hold into rank 0's `result`. Collective.
  void collect(TrainResult& result) {
    trainer_.finish();
    const std::int64_t evaluation_bytes = state_.evaluation_bytes.count();
    Outputs outputs = outputs_at_best_epoch();
    const std::vector<LinkTraffic> sent = trainer_.halo().traffic();
    std::vector<LinkTraffic> traffic = gather_values(comm_, std::span(sent));
    std::array<std::int64_t, 2> sums{evaluation_bytes, trainer_.takes_cuda_graphs() ? 1 : 0};
    AllReduce(comm_, Channel::evaluation).sum(std::span<std::int64_t>(sums));
    std::vector<double> bits;
    for (const Site& site : trainer_.model().sites()) {
      const std::array<double, 2> of = trainer_.halo().bits_sent(site);
      bits.insert(bits.end(), of.begin(), of.end());
    }
    AllReduce(comm_, Channel::evaluation).sum(std::span<double>(bits));
    if (!is_root()) return;
    result.epochs = std::move(state_.reports);
    average_bytes(result);
    result.best_epoch = state_.best.epoch();
    result.val_metric = state_.best.scores().validation;
    result.test_metric = state_.best.scores().test;
    static_cast<Outputs&>(result) = std::move(outputs);
    result.model = std::move(state_.best_model);
    for (const Site& site : trainer_.model().sites()) {
      const std::size_t at = 2 * result.sites.size();
      result.sites.push_back({site.name, site.layer, site.direction == Direction::backward,
                              trainer_.halo().policy().late(site),
                              bits[at + 1] > 0 ? bits[at] / bits[at + 1] : 0});
    }
    result.kept_columns = keeps_columns();
    result.halo_traffic = std::move(traffic);
    result.evaluation_bytes = sums[0];
    result.cuda_graph_ranks = static_cast<int>(sums[1]);
    result.parameters = trainer_.model().parameters().weights();
  }

 private:
  bool is_root() const { return comm_.rank() == 0; }
  bool evaluation_due() const {
    return options_.eval_every > 0 && state_.epochs % options_.eval_every == 0;
  }
  /// Whether an evaluation is due if the epoch was the last, and otherwise is not.
  bool due_only_at_end() const { return options_.eval_every > 0 && !evaluation_due(); }

  bool keeps_columns() {
    return comm_.size() > 1 && trainer_.halo().policy().keeps_columns(trainer_.model().sites());
  }

  /// Once, after a tenth of the epochs.
  void warn_if_nothing_is_learned(double loss) const {
    if (!callbacks_.log || !limit_ || !(loss >= *limit_)) return;
    if (state_.epochs != std::max(kEpochsToLearn, options_.epochs / 10)) return;
    const ModelOptions& model = options_.model;
    const bool drops = model.dropout > 0 || model.input_dropout.value_or(0) > 0;
    std::string advice = drops ? "a smaller --dropout or " : "";
    if (model.kind == ModelKind::dagnn) {  // Large inputs close the gates, and these stay closed.
      advice += options_.normalize == Normalization::row ? "a larger --lr"
                                                         : "--normalize row with a larger --lr";
    } else {
      advice += "a smaller --lr";
      if (model.layers > 1) advice += " or fewer --layers";
      if (options_.normalize == Normalization::none) advice += " or --normalize row";
    }
    callbacks_.log(
        LogLevel::warning,
        fmt::format("after {} the training loss{} is {:.4f}, and ignoring features and graph gives "
                    "{:.4f}: {} may help it to learn",
                    counted(state_.epochs, "epoch"), drops ? " with dropout" : "", loss, *limit_,
                    spell_options(advice)));
  }

  bool stop_asked() const { return callbacks_.stop != nullptr && callbacks_.stop->load(); }
  RunRequests take_requests() const {
    return {stop_asked(), callbacks_.save != nullptr && callbacks_.save->exchange(false)};
  }

  /// Calls `on_epoch` on rank 0. Returns, on every rank, whether it or a stop flag ends the run.
  /// Collective.
  bool report_epoch(const EpochReport& report) {
    bool stops = false;
    if (is_root() && callbacks_.on_epoch) stops = callbacks_.on_epoch(report) == EpochAction::stop;
    stopping_ranks_ = stops || stop_asked() ? 1 : 0;
    const Uncounted uncounted(state_.evaluation_bytes);
    stop_sum_.sum(std::span(&stopping_ranks_, 1));
    return stopping_ranks_ > 0;
  }

  /// Calls `work`, which may wait for all that devices do, while no rank has a message in flight.
  /// Collective.
  template <class Work>
  void undisturbed(Work work) {
    const Uncounted uncounted(state_.evaluation_bytes);
    trainer_.finish();
    barrier(comm_, Channel::evaluation);
    work();
    barrier(comm_, Channel::evaluation);
  }

  /// Every N-th epoch, what its exchanges will do to its step. Collective.
  std::optional<Verification> verify_if_due() {
    const int every = options_.verify_every;
    if (every == 0 || comm_.size() == 1 || (state_.epochs + 1) % every != 0) return std::nullopt;
    const Uncounted uncounted(state_.evaluation_bytes);
    return trainer_.verify(state_.epochs);
  }

  /// Scores the weights after the last epoch, whose report this is, and keeps the best ones.
  void evaluate(EpochReport& report) {
    const Scores scores = trainer_.evaluate(report.epoch).scores;
    if (state_.best.improves(report.epoch, scores)) {
      Model& best = state_.best_model;
      if (best.tensors.empty()) best = make_model(plan_, trainer_, report.epoch);
      copy_weights(trainer_, best);
      best.epoch = report.epoch;
      best.train_metric = scores.train;
      best.val_metric = scores.validation;
      best.test_metric = scores.test;
      count_best_model();
    }
    report.train_metric = known(scores.train);
    report.val_metric = known(scores.validation);
    report.test_metric = known(scores.test);
  }

  void count_best_model() {
    std::int64_t values = 0;
    for (const Tensor& t : state_.best_model.tensors) {
      values += static_cast<std::int64_t>(t.values.size());
    }
    best_bytes_.set(values * static_cast<std::int64_t>(sizeof(float)));
  }

  /// What the best weights give, on rank 0; nothing if none were evaluated. The best model is then
  /// that of the last epoch. Collective.
  Outputs outputs_at_best_epoch() {
    if (state_.best.epoch() < 0) {
      state_.best_model = make_model(plan_, trainer_, state_.epochs - 1);
      return {};
    }
    set_weights(state_.best_model, kBestFile, trainer_);
    const LocalOutputs mine =
        trainer_.evaluate(state_.best.epoch(), options_.keep_embeddings).outputs;
    const RankGraph& graph = trainer_.evaluated();
    return gather_outputs(mine, graph.labels(), plan_.metric(), options_.keep_logits,
                          graph.shard().global_ids, plan_.facts().nodes, comm_);
  }

  const RunPlan& plan_;
  const TrainOptions& options_;
  Communicator& comm_;
  const TrainCallbacks& callbacks_;
  Trainer trainer_;
  CheckpointSaver checkpoints_;
  RunState state_;
  std::optional<double> limit_;  ///< What the training loss is without inputs.
  std::optional<Guard> guard_;
  CountedBytes best_bytes_;          ///< Of state_.best_model.
  std::int64_t stopping_ranks_ = 0;  ///< Outlives the sum, whose messages read and write it.
  AllReduce stop_sum_;
};

/// Trains one rank from loading to results; only rank 0 writes to `result`.
void train_rank(const RunPlan& plan, const Beginning& beginning, Communicator& comm,
                const TrainCallbacks& callbacks, std::chrono::steady_clock::time_point begin,
                TrainResult& result) {
  const auto pointer = [](const auto& optional) { return optional ? &*optional : nullptr; };
  require_agreement(plan, pointer(beginning.weights), pointer(beginning.resumed), comm);
  Arena arena(static_cast<std::size_t>(address_space_of_a_rank(comm.size())));
  MemoryAccount account(&arena);
  RankMemory memory(plan, comm);
  RankRun run(plan, memory.load(account), comm, callbacks, account);
  if (beginning.weights && !beginning.resumed) run.begin_with(*beginning.weights);
  run.prepare();
  memory.end_setup(run.memory(), run.parameters(), run.memory_to_come(), callbacks.log);
  const std::chrono::duration<double> setup = std::chrono::steady_clock::now() - begin;
  if (beginning.resumed) run.resume(*beginning.resumed);
  const std::string stop_reason = run.run_epochs();
  run.collect(result);
  memory.report(run.memory(), result);
  // Ranks that are threads share the result.
  if (comm.rank() == 0 || ranks_are_processes(plan.options().transport)) {
    result.stop_reason = stop_reason;
  }
  if (comm.rank() == 0) result.setup_seconds = setup.count();
}

/// Makes the plan of a run, and first reads what it begins with, so that a checkpoint that does not
/// fit is refused before work that takes long.
using MakePlan = FunctionRef<std::unique_ptr<const RunPlan>(Beginning& beginning)>;

TrainResult run(const TrainOptions& options, const TrainCallbacks& callbacks, MakePlan make_plan) {
  const auto begin = std::chrono::steady_clock::now();
  validate(options);
  TrainResult result;
  GuardedCallbacks guarded(callbacks);
  const auto train_ranks = [&] {
    const std::string warning = warning_of_processes();
    if (callbacks.log && !warning.empty()) callbacks.log(LogLevel::warning, warning);
    if (options.transport.kind == TransportKind::automatic) {
      TrainOptions joined = options;
      joined.transport.kind = kind_of_processes();
      validate(joined);
    }
    Beginning beginning;
    const std::unique_ptr<const RunPlan> plan = make_plan(beginning);
    if (callbacks.log) callbacks.log(LogLevel::info, "split " + plan->describe_split());
    log_edge_weights(*plan, callbacks.log);
    log_covers(*plan, callbacks.log);
    const RunFacts& facts = plan->facts();
    if (callbacks.log && beginning.weights) {
      const std::string other = why_other_graph(*beginning.weights, facts.graph_kind());
      if (!other.empty()) {
        callbacks.log(LogLevel::warning, spell_options("--init-from ") +
                                             options.init_from.string() + ": its weights were " +
                                             other);
      }
    }
    if (callbacks.log && options.model.residual == Residual::identity &&
        !adds_residuals(options.model, facts.feature_cols, facts.sparse_features)) {
      callbacks.log(LogLevel::warning,
                    spell_options("--residual has no effect: it joins values of --hidden columns, "
                                  "and no layer has as many before and after it"));
    }
    result.metric = plan->metric();
    result.partition = plan->facts().quality;
    result.partition_hash = plan->facts().partition_hash;
    if (plan->covers()) result.covers = facts.covers;
    if (beginning.resumed) {
      require_same_data(*beginning.resumed, {}, result.partition_hash, options.checkpoint.resume);
    }
    const bool moves_weights = options.exchange.gradient_bits == Bits::fp32;
    launch_ranks(plan->facts().ranks, {options.transport, moves_weights}, callbacks.log,
                 [&](Communicator& comm) {
                   train_rank(*plan, beginning, comm, guarded.get(), begin, result);
                 });
  };
  try {
    join_processes(options.transport, train_ranks);
  } catch (...) {
    guarded.rethrow_first();
    throw;
  }
  return result;
}

}  // namespace

TrainResult train(const Dataset& dataset, const TrainOptions& options,
                  const TrainCallbacks& callbacks) {
  return run(options, callbacks, [&](Beginning& beginning) {
    const bool resumes = !options.checkpoint.resume.empty();
    beginning = read_beginning(dataset.graph.kind(),
                               resumes ? dataset_hash(dataset) : std::string(), options);
    return std::make_unique<const DatasetPlan>(
        dataset, options, callbacks.log,
        purpose_of(beginning, options, callbacks.log, dataset.features.cols, dataset.labels.task,
                   dataset.labels.classes, dataset.class_names));
  });
}

TrainResult train_shards(const std::filesystem::path& directory, const TrainOptions& options,
                         const TrainCallbacks& callbacks) {
  return run(options, callbacks, [&](Beginning& beginning) {
    // The options that are fixed in the shards are part of what is compared.
    auto shards = std::make_unique<ShardPlan>(directory, options);
    const RunFacts& facts = shards->facts();
    beginning = read_beginning(facts.graph_kind(), shards->dataset_hash(), shards->options());
    shards->use(purpose_of(beginning, shards->options(), callbacks.log, facts.feature_cols,
                           facts.task, facts.classes, facts.class_names));
    return shards;
  });
}

}  // namespace heliograph
