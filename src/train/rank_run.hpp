#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/communicator.hpp"
#include "core/buffer.hpp"
#include "core/function_ref.hpp"
#include "heliograph/train.hpp"
#include "train/checkpoint/manifest.hpp"
#include "train/checkpoint/run_state.hpp"
#include "train/checkpoint/saver.hpp"
#include "train/guard.hpp"
#include "train/plan/run_plan.hpp"
#include "train/trainer.hpp"

namespace heliograph {

/// The run of one rank once its data are loaded: its epochs, evaluations, checkpoints and results.
/// Only the rank's own thread may use it. All ranks make the same collective calls; these throw
/// what an epoch throws.
class RankRun {
 public:
  /// `account` counts the memory of the rank. The references must outlive the object. Collective.
  RankRun(const RunPlan& plan, RankData data, Communicator& comm, const TrainCallbacks& callbacks,
          MemoryAccount& account);

  MemoryAccount& memory() { return trainer_.memory(); }
  const Parameters& parameters() { return trainer_.model().parameters(); }
  /// What this rank allocates after setup, but for the first epochs.
  MemoryNeeds memory_to_come() { return trainer_.memory_to_come(); }

  /// Sets the weights with which the run begins. Call it before `prepare`.
  void begin_with(const Model& weights);
  /// Prepares the trainer. Collective.
  void prepare();
  /// Goes on from TrainOptions::checkpoint.resume. Call it after `prepare`. Collective.
  void resume(const CheckpointManifest& manifest);

  /// Runs epochs until the last one has run, a rank asks to stop, or patience has run out. Returns
  /// which of these ended the run, as TrainResult::stop_reason. Collective.
  std::string run_epochs();

  /// Gathers what the ranks hold into rank 0's `result`. Collective.
  void collect(TrainResult& result);

 private:
  bool is_root() const { return comm_.rank() == 0; }
  bool has_ended() const { return state_.epochs >= options_.epochs || state_.best.exhausted(); }
  bool evaluation_due() const {
    return options_.eval_every > 0 && state_.epochs % options_.eval_every == 0;
  }
  /// Whether an evaluation is due if the epoch was the last, and otherwise is not.
  bool due_only_at_end() const { return options_.eval_every > 0 && !evaluation_due(); }
  /// Whether the checkpoint that was resumed lies outside this run's folder. Collective.
  bool resumed_elsewhere();
  bool keeps_columns();
  void warn_if_nothing_is_learned(double loss) const;
  bool stop_asked() const { return callbacks_.stop != nullptr && callbacks_.stop->load(); }
  RunRequests take_requests() const;
  /// Calls `on_epoch` on rank 0. Returns, on every rank, whether it or a stop flag ends the run.
  /// Collective.
  bool report_epoch(const EpochReport& report);
  /// Calls `work`, which may wait for all that devices do, while no rank has a message in flight.
  /// Collective.
  void undisturbed(FunctionRef<void()> work);
  /// Changes the exchanges of the next epoch if bits follow the trend of the loss. Collective.
  std::optional<TrendAction> follow_trend();
  /// Every N-th epoch, what its exchanges will do to its step. Collective.
  std::optional<Verification> verify_if_due();
  /// Scores the weights after the last epoch, whose report this is, and keeps the best ones.
  void evaluate(EpochReport& report);
  void count_best_model();
  /// What the best weights give, on rank 0; nothing if none were evaluated. The best model is then
  /// that of the last epoch. Collective.
  Outputs outputs_at_best_epoch();

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

}  // namespace heliograph
