#include "heliograph/train.hpp"

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

#include "core/arena.hpp"
#include "core/function_ref.hpp"
#include "core/throw_error.hpp"
#include "graph/io/files.hpp"
#include "graph/split.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/shards.hpp"
#include "train/agreement.hpp"
#include "train/checkpoint/saver.hpp"
#include "train/gather_values.hpp"
#include "train/guarded_callbacks.hpp"
#include "train/launch.hpp"
#include "train/plan/dataset_plan.hpp"
#include "train/plan/rank_memory.hpp"
#include "train/plan/shard_plan.hpp"
#include "train/process_memory.hpp"
#include "train/processes.hpp"
#include "train/trainer.hpp"

namespace heliograph {
namespace {

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
        checkpoints_(
            options_.checkpoint, comm, trainer_,
            [this] {
              if (callbacks_.before_saving) callbacks_.before_saving();
              return identify_run(plan_);
            },
            callbacks.log),
        state_(options_.patience, comm, &account),
        stop_sum_(comm, Channel::evaluation, &account) {}

  MemoryAccount& memory() { return trainer_.memory(); }

  void resume(const CheckpointManifest& manifest) {
    restore_run(manifest, options_.checkpoint.resume, comm_, trainer_, state_);
    // The last epoch may have been saved before it was evaluated; see run_epochs.
    if (state_.epochs == options_.epochs && due_only_at_end()) evaluate(state_.reports.back());
    if (is_root() && callbacks_.on_resume) callbacks_.on_resume(state_.reports);
  }

  /// Runs epochs until the last one has run, a rank asks to stop, or patience has run out. Returns
  /// which of these ended the run, as TrainResult::stop_reason.
  std::string run_epochs() {
    if (is_root()) {
      state_.reports.reserve(static_cast<std::size_t>(std::min(options_.epochs, 1 << 16)));
    }
    while (state_.epochs < options_.epochs && !state_.best.exhausted()) {
      EpochEnd end = trainer_.run_epoch(state_.epochs, [this] { return take_requests(); });
      EpochReport& report = end.report;
      ++state_.epochs;
      const bool last = state_.epochs == options_.epochs;
      // A stopped run that can be resumed must not lack the scores of its last epoch.
      const bool evaluates = !end.asked.stop || checkpoints_.enabled();
      if (evaluates && evaluation_due()) evaluate(report);
      const auto saves = [&](bool stops) {
        const bool ends = stops || last || state_.best.exhausted();
        return checkpoints_.due(state_.epochs, stops || end.asked.save, ends);
      };
      // An evaluation that is due only because the run ends is no part of the checkpoint: a run
      // that resumes it with more epochs does without.
      const bool saves_first = evaluates && last && due_only_at_end();
      if (is_root()) state_.reports.push_back(report);
      if (saves_first) {
        if (saves(end.asked.stop)) checkpoints_.save(state_, end.asked.stop);
        evaluate(report);
        if (is_root()) state_.reports.back() = report;
      }
      const bool stops = report_epoch(report) || end.asked.stop;
      if (!saves_first && saves(stops)) checkpoints_.save(state_, stops);
      if (stops) return "interrupted";
    }
    return state_.best.exhausted() ? "early_stopping" : "completed";
  }

  /// Gathers what the ranks hold into rank 0's `result`. Collective.
  void collect(TrainResult& result) {
    trainer_.finish();
    const RankGraph& graph = trainer_.evaluated();
    Predictions predictions =
        state_.predictions.gather(graph.shard().global_ids, plan_.facts().nodes, comm_);
    const std::vector<LinkTraffic> sent = trainer_.halo().traffic();
    std::vector<LinkTraffic> traffic = gather_values(comm_, std::span(sent));
    std::array<std::int64_t, 2> sums{state_.evaluation_bytes.count(),
                                     trainer_.takes_cuda_graphs() ? 1 : 0};
    AllReduce(comm_, Channel::evaluation).sum(std::span<std::int64_t>(sums));
    if (!is_root()) return;
    result.epochs = std::move(state_.reports);
    average_bytes(result);
    result.best_epoch = state_.best.epoch();
    result.val_metric = state_.best.scores().validation;
    result.test_metric = state_.best.scores().test;
    result.predictions = std::move(predictions.values);
    result.prediction_cols = static_cast<std::int32_t>(graph.labels().prediction_cols());
    result.scores = std::move(predictions.scores);
    for (const Site& site : trainer_.model().sites()) {
      result.sites.push_back({site.name, site.layer, site.direction == Direction::backward});
    }
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
    const std::int64_t evaluation_bytes = state_.evaluation_bytes.count();
    stop_sum_.sum(std::span(&stopping_ranks_, 1));
    state_.evaluation_bytes.set(evaluation_bytes);
    return stopping_ranks_ > 0;
  }

  /// Scores the weights after the last epoch, whose report this is, and keeps the best predictions.
  void evaluate(EpochReport& report) {
    const auto [scores, logits] = trainer_.evaluate(state_.epochs - 1);
    if (state_.best.improves(state_.epochs - 1, scores)) {
      state_.predictions.keep(logits, trainer_.evaluated().labels(), plan_.metric());
    }
    report.train_metric = known(scores.train);
    report.val_metric = known(scores.validation);
    report.test_metric = known(scores.test);
  }

  const RunPlan& plan_;
  const TrainOptions& options_;
  Communicator& comm_;
  const TrainCallbacks& callbacks_;
  Trainer trainer_;
  CheckpointSaver checkpoints_;
  RunState state_;
  std::int64_t stopping_ranks_ = 0;  ///< Outlives the sum, whose messages read and write it.
  AllReduce stop_sum_;
};

/// Trains one rank from loading to results; only rank 0 writes to `result`. `resumed`: the manifest
/// of the checkpoint to resume, or null.
void train_rank(const RunPlan& plan, const CheckpointManifest* resumed, Communicator& comm,
                const TrainCallbacks& callbacks, std::chrono::steady_clock::time_point begin,
                TrainResult& result) {
  require_agreement(plan, resumed, comm);
  Arena arena(static_cast<std::size_t>(address_space_of_a_rank(comm.size())));
  MemoryAccount account(&arena);
  RankMemory memory(plan, comm);
  RankRun run(plan, memory.load(account), comm, callbacks, account);
  memory.end_setup(run.memory(), callbacks.log);
  const std::chrono::duration<double> setup = std::chrono::steady_clock::now() - begin;
  if (resumed != nullptr) run.resume(*resumed);
  const std::string stop_reason = run.run_epochs();
  run.collect(result);
  memory.report(run.memory(), result);
  if (comm.rank() != 0) return;
  result.setup_seconds = setup.count();
  result.stop_reason = stop_reason;
}

/// Reads the manifest of the checkpoint to resume, if there is one. Throws Error: bad_input (the
/// checkpoint is damaged), mismatch (it belongs to another run).
std::optional<CheckpointManifest> open_checkpoint(const std::string& dataset_hash,
                                                  const TrainOptions& options) {
  const std::filesystem::path& path = options.checkpoint.resume;
  if (path.empty()) return std::nullopt;
  std::optional<int> only;
  if (ranks_are_processes(options.transport)) only = rank_of_process();
  CheckpointManifest manifest = verify_checkpoint_files(path, only);
  require_same_options(manifest, options, path);
  require_same_data(manifest, dataset_hash, {}, path);
  return manifest;
}

/// Makes the plan of a run, and first opens the checkpoint to resume, so that one that does not fit
/// is refused before work that takes long.
using MakePlan =
    FunctionRef<std::unique_ptr<const RunPlan>(std::optional<CheckpointManifest>& resumed)>;

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
    std::optional<CheckpointManifest> resumed;
    const std::unique_ptr<const RunPlan> plan = make_plan(resumed);
    if (callbacks.log) {
      const RunFacts& facts = plan->facts();
      callbacks.log(LogLevel::info,
                    fmt::format("split {}: {} nodes to train on, {} to validate, {} to test",
                                split_text(plan->options().split), facts.training_nodes,
                                facts.validation_nodes, facts.test_nodes));
    }
    result.metric = plan->metric();
    result.partition = plan->facts().quality;
    result.partition_hash = plan->facts().partition_hash;
    if (resumed) require_same_data(*resumed, {}, result.partition_hash, options.checkpoint.resume);
    const CheckpointManifest* manifest = resumed ? &*resumed : nullptr;
    launch_ranks(plan->facts().ranks, options.transport, [&](Communicator& comm) {
      train_rank(*plan, manifest, comm, guarded.get(), begin, result);
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
  return run(options, callbacks, [&](std::optional<CheckpointManifest>& resumed) {
    if (!options.checkpoint.resume.empty()) {
      resumed = open_checkpoint(dataset_hash(dataset), options);
    }
    return std::make_unique<const DatasetPlan>(dataset, options, callbacks.log);
  });
}

TrainResult train_shards(const std::filesystem::path& directory, const TrainOptions& options,
                         const TrainCallbacks& callbacks) {
  return run(options, callbacks, [&](std::optional<CheckpointManifest>& resumed) {
    auto plan = std::make_unique<const ShardPlan>(directory, options);
    resumed = open_checkpoint(plan->dataset_hash(), plan->options());
    return plan;
  });
}

}  // namespace heliograph
