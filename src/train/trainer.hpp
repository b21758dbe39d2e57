#pragma once

#include <memory>
#include <optional>
#include <span>

#include "comm/collectives.hpp"
#include "comm/communicator.hpp"
#include "core/function_ref.hpp"
#include "core/host_copy.hpp"
#include "layers/network.hpp"
#include "staleness/stale_halo.hpp"
#include "train/epoch_statistics.hpp"
#include "train/metrics/predictions.hpp"
#include "train/plan/memory_needs.hpp"
#include "train/plan/rank_graph.hpp"
#include "train/plan/run_plan.hpp"
#include "train/training_loss.hpp"
#include "train/verifier.hpp"
#include "train/weight_update.hpp"

namespace heliograph {

/// Exact scores of a model, and the outputs that they rest on.
struct Evaluation {
  Scores scores;  ///< Equal on every rank.
  /// Of this rank's nodes, on the host; the logits are valid until the trainer's next call.
  LocalOutputs outputs;
};

/// Trains and evaluates the model of one rank. Every rank makes the same calls, each on the rank's
/// own thread.
class Trainer {
 public:
  /// `data`: this rank's part of the plan's training graph. `account` (may be null) counts the
  /// memory that the host holds. The references must outlive the trainer.
  Trainer(const RunPlan& plan, RankData data, Communicator& comm, MemoryAccount* account);

  /// Makes what `verify` needs. Rehearses an epoch (two if rows are stale later), and an evaluation
  /// if there will be any, if messages of later epochs may occupy devices
  /// (Communicator::sends_in_groups): allocates and loads all that these need. Afterwards the
  /// trainer is as it was. Call it before the first epoch, and before a run is resumed. Collective.
  /// Throws what `run_epoch` and `evaluate` throw.
  void prepare();

  /// Runs one epoch: forward, loss, backward, weight update. Calls `asks` at its end.
  /// Returns the same on every rank.
  /// Throws Error: numeric (the loss or a gradient is not finite: names layer, node and epoch),
  /// peer_lost.
  EpochEnd run_epoch(int epoch, FunctionRef<RunRequests()> asks);

  /// Compares the step that `run_epoch` will make in this epoch with the exact one, and changes
  /// nothing. Needs TrainOptions::verify_every, more than one rank, and `prepare`. Collective.
  /// Throws what `run_epoch` throws.
  Verification verify(int epoch);

  /// Scores the present weights on the whole graph; `embeds`: and returns embeddings. `epoch`: in
  /// which the run is, for messages; -1: in none.
  /// Throws Error: numeric (an output is NaN or Inf), peer_lost.
  Evaluation evaluate(int epoch, bool embeds = false);

  /// Waits for halos in flight.
  void finish() { halo_->drain(); }

  /// Replaces the exchange of training between two epochs; rows that were sent before are dropped.
  /// `exchange` is the plan's with other bits and lag. Counts of what was sent go on. Collective.
  /// Throws Error: resource, peer_lost.
  void set_exchange(const ExchangeOptions& exchange);

  const RunPlan& plan() const { return plan_; }
  Network& model() { return *model_; }
  Optimizer& optimizer() { return update_->optimizer(); }
  StaleHalo& halo() { return *halo_; }
  Device& device() { return kernels_->device(); }
  /// This rank's part of the whole graph, which `evaluate` scores even if training is inductive.
  RankGraph& evaluated() { return whole_ ? *whole_ : *train_; }

  /// The gradients of the last epoch, as Parameters::flat_gradients_f32 gives them where kernels
  /// read them: sums over all ranks where the optimizer owns the weights.
  std::span<const float> gradients() const { return model_->parameters().flat_gradients_f32(); }

  /// Whether this rank asks its device for CUDA graphs of the work that epochs repeat.
  bool takes_cuda_graphs() const;

  /// The most bytes that this rank allocates while it evaluates, as its guard and for later
  /// exchanges.
  MemoryNeeds memory_to_come();
  /// Counts the memory that kernels read: of the device, or of the host if that computes.
  MemoryAccount& memory() { return *account_; }

 private:
  /// The sums of BatchNorm. They have a channel of their own, so they do not wait for gradients.
  class BatchSum final : public RankSum {
   public:
    BatchSum(Communicator& comm, PhaseClock& times, MemoryAccount* account)
        : sum_(comm, Channel::moments, account), times_(times) {}
    void sum(std::span<double> values) override {
      const PhaseTimer timer(times_.allreduce);
      sum_.sum(values);
    }

   private:
    AllReduce sum_;
    PhaseClock& times_;
  };

  bool on_host() const { return kernels_->device().on_host(); }
  PassContext pass_context(Halo& halo, PhaseClock& times, Clock clock);
  void make_halo(const ExchangeOptions& exchange);
  void make_verifier();
  /// What this rank has sent so far for training.
  RankEpoch sent() const;

  const RunPlan& plan_;
  Communicator& comm_;
  std::unique_ptr<Kernels> kernels_;
  MemoryAccount device_account_;
  MemoryAccount* account_;  ///< device_account_, or the host's account if the host computes.
  std::unique_ptr<RankGraph> train_;
  std::unique_ptr<RankGraph> whole_;  ///< Inductive training only.
  std::unique_ptr<Network> model_;
  std::optional<TrainingLoss> training_loss_;
  PhaseClock times_;
  PhaseClock asking_;  ///< Time to ask a device for work. It is not reported.
  std::unique_ptr<StaleHalo> halo_;
  std::optional<Verifier> verifier_;
  std::optional<WeightUpdate> update_;
  BatchSum batch_sum_;
  EpochStatistics statistics_;
  HostCopy logits_;  ///< Of the last evaluation.
};

}  // namespace heliograph
