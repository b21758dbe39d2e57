#include "heliograph/train.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>

#include "core/arena.hpp"
#include "graph/io/files.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/error.hpp"
#include "heliograph/shards.hpp"
#include "train/checkpoint/saver.hpp"
#include "train/launch.hpp"
#include "train/options/json.hpp"
#include "train/plan/dataset_plan.hpp"
#include "train/plan/memory_check.hpp"
#include "train/plan/shard_plan.hpp"
#include "train/process_memory.hpp"
#include "train/processes.hpp"
#include "train/trainer.hpp"

namespace heliograph {
namespace {

std::optional<double> known(double score) {
  return std::isnan(score) ? std::nullopt : std::optional<double>(score);
}

/// What the ranks hold, or held at most, all together. Collective.
template <class OfUse>
MemoryNeeds sum_over_ranks(Communicator& comm, OfUse of_use) {
  MemoryNeeds sum;
  for (std::size_t i = 0; i < sum.bytes.size(); ++i) {
    sum.bytes[i] = of_use(static_cast<MemoryUse>(i));
  }
  AllReduce(comm, Channel::evaluation).sum(std::span<std::int64_t>(sum.bytes));
  return sum;
}

/// What one rank adds to the report; after `sum_over_ranks` that of all. Bytes are of its process.
struct RankFigures {
  std::int64_t stored = 0;  ///< In the shards that it reads.
  std::int64_t loaded = 0;  ///< Taken at most while it reads them.
  std::int64_t setup_peak = 0;
  std::int64_t training_peak = 0;
  std::int64_t cuda_graphs = 0;  ///< 1 where it takes them.

  void sum_over_ranks(Communicator& comm) {
    std::array<std::int64_t, 5> all{stored, loaded, setup_peak, training_peak, cuda_graphs};
    AllReduce(comm, Channel::evaluation).sum(std::span<std::int64_t>(all));
    stored = all[0], loaded = all[1], setup_peak = all[2], training_peak = all[3];
    cuda_graphs = all[4];
  }
};

/// Loads what the rank holds. Of a process of its own it says what reading its shard has taken.
RankData load_counted(const RunPlan& plan, int rank, bool counts, MemoryAccount& account,
                      RankFigures& figures) {
  if (counts) figures.setup_peak = peak_rss_bytes();
  const std::int64_t stored = plan.stored_bytes(rank);
  const bool alone = ranks_are_processes(plan.options().transport) && stored > 0;
  const bool measures = alone && reset_peak_rss();
  const std::int64_t before = measures ? peak_rss_bytes() : 0;
  RankData data = plan.load(rank, GraphScope::training, MemoryUse::features, &account);
  if (alone) figures.stored = stored;
  if (measures) figures.loaded = peak_rss_bytes() - before;
  return data;
}

/// The exact sum, now that every buffer is there. Memory is taken when it is first written, so
/// what training alone writes is still to come.
void check_memory(const MemoryNeeds& held, const TrainOptions& options) {
  if (options.memory_limit_bytes > 0) {
    require_memory(held, options.memory_limit_bytes, std::nullopt);
    return;
  }
  if (options.transport.device != DeviceKind::cpu) return;  // A device has lent all of it already.
  MemoryNeeds to_come;
  for (const MemoryUse use : {MemoryUse::activations, MemoryUse::gradients, MemoryUse::halo}) {
    to_come[use] = held[use];
  }
  require_memory(to_come, 0, available_memory_bytes());
}

MemoryReport report_memory(const MemoryNeeds& bytes) {
  return {bytes[MemoryUse::graph],     bytes[MemoryUse::features],  bytes[MemoryUse::activations],
          bytes[MemoryUse::gradients], bytes[MemoryUse::halo],      bytes[MemoryUse::weights],
          bytes[MemoryUse::workspace], bytes[MemoryUse::evaluation]};
}

/// Bytes an epoch, from the reports of all epochs.
void average_bytes(TrainResult& result) {
  const auto epochs = static_cast<std::int64_t>(result.epochs.size());
  if (epochs == 0) return;
  TrafficBytes bytes;
  std::int64_t fp32_bytes = 0;
  for (const EpochReport& report : result.epochs) {
    bytes.halo_forward += report.bytes.halo_forward;
    bytes.halo_backward += report.bytes.halo_backward;
    bytes.allreduce += report.bytes.allreduce;
    fp32_bytes += report.fp32_bytes;
  }
  result.bytes_per_epoch = {bytes.halo_forward / epochs, bytes.halo_backward / epochs,
                            bytes.allreduce / epochs};
  result.fp32_bytes_per_epoch = fp32_bytes / epochs;
}

/// What the callbacks of this process ask for at the end of an epoch.
RunRequests take_requests(const TrainCallbacks& callbacks) {
  return {callbacks.stop != nullptr && callbacks.stop->load(),
          callbacks.save != nullptr && callbacks.save->exchange(false)};
}

/// The state to begin with, from the checkpoint that `manifest` is of, or null.
RunState begin_state(const CheckpointManifest* manifest, const TrainOptions& options,
                     Trainer& trainer, Communicator& comm) {
  if (manifest == nullptr) return {0, BestEpoch(options.patience), -1, {}};
  return restore_run(*manifest, options.checkpoint.resume, options.patience, trainer, comm);
}

/// Scores the weights as the last epoch has left them, and keeps the best.
void evaluate_epoch(Trainer& trainer, RunState& state, EpochReport& report) {
  const int epoch = state.epochs - 1;
  const Scores scores = trainer.evaluate(epoch);
  if (state.best.improves(scores)) {
    trainer.keep_predictions();
    state.best_epoch = epoch;
  }
  report.train_metric = known(scores.train);
  report.val_metric = known(scores.validation);
  report.test_metric = known(scores.test);
}

/// Processes read options, data and checkpoints for themselves: messages of ranks that read
/// different ones may fit each other all the same. Collective.
/// Throws Error(mismatch) that names the first rank that differs from rank 0.
void require_agreement(const RunPlan& plan, const CheckpointManifest* resumed, Communicator& comm) {
  nlohmann::ordered_json said = options_to_json(plan.options());
  for (const char* own : {"transport", "threads-per-rank", "pin"}) said.erase(own);
  const RunFacts& facts = plan.facts();
  said["facts"] = {facts.name,         facts.nodes, facts.training_nodes, facts.classes,
                   facts.feature_cols, facts.ranks, facts.partition_hash};
  said["epochs_done"] = resumed == nullptr ? 0 : resumed->epochs;
  const std::string text = said.dump();
  std::vector<std::int64_t> seen(static_cast<std::size_t>(comm.size()), 0);
  const auto mine = static_cast<std::size_t>(comm.rank());
  seen[mine] = static_cast<std::int64_t>(xxh64(std::as_bytes(std::span(text))) >> 1U);
  AllReduce(comm, Channel::evaluation).sum(std::span<std::int64_t>(seen));
  for (std::size_t rank = 1; rank < seen.size(); ++rank) {
    if (seen[rank] == seen[0]) continue;
    throw Error(
        ErrorCode::mismatch,
        fmt::format(
            "rank {} runs with other options, another data set or another checkpoint than rank 0",
            rank));
  }
}

/// The body of one rank. Only rank 0 writes to `result` and calls back. `resumed`: the manifest of
/// the checkpoint that the run goes on from, or null.
void train_rank(const RunPlan& plan, const CheckpointManifest* resumed, Communicator& comm,
                const TrainCallbacks& callbacks, TrainResult& result,
                std::chrono::steady_clock::time_point begin) {
  const TrainOptions& options = plan.options();
  const bool root = comm.rank() == 0;
  require_agreement(plan, resumed, comm);
  Arena arena(static_cast<std::size_t>(address_space_of_a_rank(comm.size())));
  MemoryAccount account(&arena);
  // Each process counts its own memory, once.
  const bool counts = root || ranks_are_processes(options.transport);
  RankFigures figures;
  RankData data = load_counted(plan, comm.rank(), counts, account, figures);
  Trainer trainer(plan, std::move(data), comm, &account);
  const MemoryNeeds held =
      sum_over_ranks(comm, [&](MemoryUse r) { return trainer.memory().live(r); });
  trainer.memory().reset_peaks();
  if (counts) figures.setup_peak = std::max(figures.setup_peak, peak_rss_bytes());
  const bool reset = !counts || reset_peak_rss();
  if (root) {
    check_memory(held, options);
    result.setup_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!reset && callbacks.log) {
      callbacks.log(LogLevel::warning,
                    "the system does not let a process reset its peak memory: what is given for "
                    "training includes loading and partitioning");
    }
    result.parameters = trainer.model().parameters().weights();
  }

  if (root) result.epochs.reserve(static_cast<std::size_t>(std::min(options.epochs, 1 << 16)));
  CheckpointSaver checkpoints(
      options.checkpoint, comm, trainer, [&] { return identify_run(plan); }, callbacks.log);
  RunState state = begin_state(resumed, options, trainer, comm);
  BestEpoch& best = state.best;
  const auto evaluates_next = [&] { return state.epochs % options.eval_every == 0; };
  if (resumed != nullptr) {
    // A run has scores of its last epoch, but its checkpoint has none that a longer run lacks.
    if (state.epochs == options.epochs && !evaluates_next()) {
      evaluate_epoch(trainer, state, state.reports.back());
    }
    if (root) {
      result.epochs.insert(result.epochs.end(), state.reports.begin(), state.reports.end());
      if (callbacks.on_resume) callbacks.on_resume(state.reports);
    }
  }
  std::string stop_reason = best.exhausted() ? "early_stopping" : "completed";
  while (state.epochs < options.epochs && !best.exhausted()) {
    EpochEnd end = trainer.run_epoch(state.epochs, [&] { return take_requests(callbacks); });
    EpochReport& report = end.report;
    const RunRequests asked = end.asked;
    ++state.epochs;
    const bool last = state.epochs == options.epochs;
    // A run that goes on later must not lack the scores of the epoch at which it was stopped.
    const bool evaluates = !asked.stop || checkpoints.enabled();
    if (evaluates && evaluates_next()) evaluate_epoch(trainer, state, report);
    const bool ends = asked.stop || last || best.exhausted();
    const bool saves = checkpoints.due(state.epochs, asked.stop || asked.save, ends);
    if (root) result.epochs.push_back(report);
    const auto save = [&] {  // Only rank 0 has the reports.
      checkpoints.save(
          state,
          root ? std::span<const EpochReport>(result.epochs) : std::span<const EpochReport>(),
          asked.stop);
    };
    if (evaluates && last && !evaluates_next()) {
      if (saves) save();
      evaluate_epoch(trainer, state, report);
      if (root) result.epochs.back() = report;
      if (root && callbacks.on_epoch) callbacks.on_epoch(report);
    } else {
      if (root && callbacks.on_epoch) callbacks.on_epoch(report);
      if (saves) save();
    }
    if (asked.stop || best.exhausted()) {
      stop_reason = asked.stop ? "interrupted" : "early_stopping";
      break;
    }
  }
  trainer.finish();
  trainer.collect_predictions(result);
  trainer.collect_traffic(result);
  std::int64_t evaluation_bytes = trainer.evaluation_bytes();
  AllReduce(comm, Channel::evaluation).sum(std::span<std::int64_t>(&evaluation_bytes, 1));
  const MemoryNeeds peak =
      sum_over_ranks(comm, [&](MemoryUse r) { return trainer.memory().peak(r); });
  if (counts) figures.training_peak = peak_rss_bytes();
  figures.cuda_graphs = trainer.takes_cuda_graphs() ? 1 : 0;
  figures.sum_over_ranks(comm);
  if (!root) return;
  result.memory = report_memory(peak);
  result.stop_reason = stop_reason;
  result.best_epoch = state.best_epoch;
  result.val_metric = best.scores().validation;
  result.test_metric = best.scores().test;
  result.evaluation_bytes = evaluation_bytes;
  result.shard_bytes = figures.stored;
  result.loading_bytes = figures.loaded;
  result.setup_peak_rss_bytes = figures.setup_peak;
  result.peak_rss_bytes = figures.training_peak;
  result.cuda_graph_ranks = static_cast<int>(figures.cuda_graphs);
  average_bytes(result);
}

/// Refuses a checkpoint that is damaged or of another run before any work is done.
std::optional<CheckpointManifest> open_checkpoint(const std::string& dataset_hash,
                                                  const TrainOptions& options) {
  const std::filesystem::path& path = options.checkpoint.resume;
  if (path.empty()) return std::nullopt;
  // One process reads all of it; each rank checks what it reads once more.
  if (rank_of_process() == 0) verify_checkpoint(path);
  CheckpointManifest manifest = read_checkpoint_manifest(path);
  require_same_options(manifest, options, path);
  require_same_data(manifest, dataset_hash, {}, path);
  return manifest;
}

/// Makes a plan from options that say what `automatic` ones stand for, and opens the checkpoint
/// that the run goes on from, before anything that takes long.
using MakePlan = FunctionRef<std::unique_ptr<const RunPlan>(
    const TrainOptions& resolved, std::optional<CheckpointManifest>& resumed)>;

TrainResult run(const TrainOptions& options, const TrainCallbacks& callbacks, MakePlan make_plan) {
  const auto begin = std::chrono::steady_clock::now();
  validate(options);
  TrainResult result;
  join_processes(options.transport, [&] {
    TrainOptions resolved = options;
    if (options.transport.kind != TransportKind::nccl) {
      resolved.transport.kind =
          ranks_are_processes(options.transport) ? kind_of_processes() : TransportKind::threads;
    }
    resolved.transport.threads_per_rank = threads_per_rank(options.transport);
    std::optional<CheckpointManifest> resumed;
    const std::unique_ptr<const RunPlan> plan = make_plan(resolved, resumed);
    result.metric = plan->metric();
    result.partition = plan->facts().quality;
    result.partition_hash = plan->facts().partition_hash;
    if (resumed) require_same_data(*resumed, {}, result.partition_hash, options.checkpoint.resume);
    const CheckpointManifest* manifest = resumed ? &*resumed : nullptr;
    launch_ranks(plan->facts().ranks, options.transport, [&](Communicator& comm) {
      train_rank(*plan, manifest, comm, callbacks, result, begin);
    });
  });
  return result;
}

}  // namespace

TrainResult train(const Dataset& dataset, const TrainOptions& options,
                  const TrainCallbacks& callbacks) {
  return run(options, callbacks,
             [&](const TrainOptions& resolved, std::optional<CheckpointManifest>& resumed) {
               if (!options.checkpoint.resume.empty()) {
                 resumed = open_checkpoint(dataset_hash(dataset), resolved);
               }
               return std::make_unique<const DatasetPlan>(dataset, resolved, callbacks.log);
             });
}

TrainResult train_shards(const std::filesystem::path& directory, const TrainOptions& options,
                         const TrainCallbacks& callbacks) {
  return run(options, callbacks,
             [&](const TrainOptions& resolved, std::optional<CheckpointManifest>& resumed) {
               auto plan = std::make_unique<const ShardPlan>(directory, resolved);
               resumed = open_checkpoint(plan->dataset_hash(), plan->options());
               return plan;
             });
}

}  // namespace heliograph
