#include <utility>

#include "comm/threads/transport.hpp"
#include "core/arena.hpp"
#include "heliograph/checkpoint.hpp"
#include "heliograph/error.hpp"
#include "train/checkpoint/manifest.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/launch.hpp"
#include "train/plan/dataset_plan.hpp"
#include "train/process_memory.hpp"
#include "train/trainer.hpp"

namespace heliograph {
namespace {

namespace fs = std::filesystem;

/// Only the weights are needed, so only they are read.
Safetensors open_weights(const fs::path& path) {
  try {
    return {path / kWeightsFile, read_checkpoint_manifest(path).file(kWeightsFile, path)};
  } catch (const Error& error) {
    if (error.code() == ErrorCode::bad_input) verify_checkpoint(path);  // Offers the one before.
    throw;
  }
}

/// What `options` say, but for what the weights were made for.
TrainOptions options_of(const TrainOptions& options, const TrainOptions& trained) {
  TrainOptions o = options;
  o.model = trained.model;
  o.normalize = trained.normalize;
  o.inductive = trained.inductive;  // Features are standardised as they were.
  o.exchange = ExchangeOptions();
  o.checkpoint = CheckpointOptions();
  o.epochs = 1;
  o.patience = 0;
  return o;
}

}  // namespace

EvaluationResult evaluate(const Dataset& dataset, const TrainOptions& options,
                          const fs::path& checkpoint, const LogCallback& log) {
  const Safetensors weights = open_weights(checkpoint);
  const CheckpointInfo info = read_checkpoint(checkpoint);
  // Nothing is trained, so what training would need is not asked for.
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
    weights.load(trainer.weights());
    trainer.store_weights();
    const Scores scores = trainer.evaluate(info.epochs - 1);
    trainer.keep_predictions();
    TrainResult gathered;
    trainer.collect_predictions(gathered);
    if (comm.rank() != 0) return;
    result.train_metric = scores.train;
    result.val_metric = scores.validation;
    result.test_metric = scores.test;
    result.predictions = std::move(gathered.predictions);
    result.prediction_cols = gathered.prediction_cols;
    result.scores = std::move(gathered.scores);
  });
  return result;
}

}  // namespace heliograph
