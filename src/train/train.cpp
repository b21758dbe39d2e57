#include "heliograph/train.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "core/arena.hpp"
#include "core/function_ref.hpp"
#include "core/throw_error.hpp"
#include "heliograph/shards.hpp"
#include "layers/compose.hpp"
#include "train/agreement.hpp"
#include "train/beginning.hpp"
#include "train/checkpoint/model_file.hpp"
#include "train/exchange_advice.hpp"
#include "train/guarded_callbacks.hpp"
#include "train/launch.hpp"
#include "train/plan/dataset_plan.hpp"
#include "train/plan/rank_memory.hpp"
#include "train/plan/shard_plan.hpp"
#include "train/process_memory.hpp"
#include "train/processes.hpp"
#include "train/rank_run.hpp"

namespace heliograph {
namespace {

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
