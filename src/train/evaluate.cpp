#include <utility>

#include "comm/threads/transport.hpp"
#include "core/arena.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/error.hpp"
#include "train/checkpoint/manifest.hpp"
#include "train/checkpoint/trainer_state.hpp"
#include "train/launch.hpp"
#include "train/plan/dataset_plan.hpp"
#include "train/process_memory.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

/// Reads nothing of the checkpoint but its manifest and weights.
Safetensors open_weights(const fs::path& path) {
  try {
    return {path / kWeightsFile, read_checkpoint_manifest(path).file(kWeightsFile, path)};
  } catch (const Error& error) {
    if (error.code() == ErrorCode::bad_input)
      verify_checkpoint(path);  // Names an older checkpoint that is whole.
    throw;
  }
}

/// `options`, with `trained` in place of those that the weights depend on.
TrainOptions options_of(const TrainOptions& options, const TrainOptions& trained) {
  TrainOptions o = options;
  o.model = trained.model;
  o.normalize = trained.normalize;
  o.inductive = trained.inductive;  // Decides which nodes standardise the features.
  o.exchange = ExchangeOptions();
  o.checkpoint = CheckpointOptions();
  o.epochs = 1;
  o.patience = 0;
  return o;
}

}  // namespace

EvaluationResult evaluate(const Dataset& dataset, const TrainOptions& options,
                          const fs::path& checkpoint, const LogCallback& log) {
  const Safetensors stored = open_weights(checkpoint);
  const CheckpointInfo info = read_checkpoint(checkpoint);
  // The last argument: nothing is trained, so the memory of training is not checked.
  const DatasetPlan plan(dataset, options_of(options, info.options), log, false);
  EvaluationResult result;
  result.metric = plan.metric();
  const TransportOptions& transport = plan.options().transport;
  run_ranks(plan.facts().ranks, thread_options(transport), [&](Communicator& comm) {
    Arena arena(static_cast<std::size_t>(address_space_of_a_rank(comm.size())));
    MemoryAccount account(&arena);
    Trainer trainer(plan,
                    plan.load(comm.rank(), GraphScope::training, MemoryUse::features, &account),
                    comm, &account);
    HostWeights weights(trainer);
    stored.load(weights.tensors());
    weights.store();
    const auto [scores, logits] = trainer.evaluate(info.epochs - 1);
    const RankGraph& graph = trainer.evaluated();
    BestPredictions best(&account);
    best.keep(logits, graph.labels(), plan.metric());
    Predictions predictions = best.gather(graph.shard().global_ids, plan.facts().nodes, comm);
    if (comm.rank() != 0) return;
    result.train_metric = scores.train;
    result.val_metric = scores.validation;
    result.test_metric = scores.test;
    result.predictions = std::move(predictions.values);
    result.prediction_cols = static_cast<std::int32_t>(graph.labels().prediction_cols());
    result.scores = std::move(predictions.scores);
  });
  return result;
}

}  // namespace heliograph
