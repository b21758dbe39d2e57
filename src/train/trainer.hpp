#pragma once

#include <memory>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/communicator.hpp"
#include "heliograph/train.hpp"
#include "layers/model.hpp"
#include "staleness/stale_halo.hpp"
#include "train/optimizer.hpp"
#include "train/rank_graph.hpp"
#include "train/run_plan.hpp"

namespace heliograph {

/// Trains one rank. Every rank makes the same calls; used by the rank's own thread.
class Trainer {
 public:
  /// References must outlive the trainer.
  Trainer(const RunPlan& plan, Communicator& comm, MemoryAccount* account);

  /// One epoch: forward, loss, backward, all-reduce, step. The report is the same on every rank.
  /// Throws Error: numeric (loss or gradient is not finite: names layer, node and epoch),
  /// peer_lost.
  EpochReport run_epoch(int epoch);

  /// Exact scores of the present weights on the whole graph.
  /// Throws Error: numeric (NaN or Inf is never ranked), peer_lost.
  Scores evaluate(int epoch);

  /// Keeps the predictions of the last `evaluate`.
  void keep_predictions();

  /// Rank 0 gets every rank's kept predictions in the user's node order (others: nothing).
  void collect_predictions(TrainResult& result);

  /// Rank 0 gets every rank's halo traffic (others: nothing).
  void collect_traffic(TrainResult& result);

  /// Sum over ranks of a flag; all ranks agree on what it says.
  bool any_rank(bool flag);

  /// Waits for halos in flight.
  void finish() { halo_->drain(); }

  const Model& model() const { return *model_; }

 private:
  double loss_and_gradient(ConstMatrixView logits);
  template <class T>
  void begin_sum(std::span<T> gradients, std::int64_t begin, std::int64_t end);
  /// Collective; `mine`: what this rank found in rows of `shard`.
  [[noreturn]] void refuse_non_finite(int epoch, const char* what,
                                      std::optional<Model::NonFinite> mine, const Shard& shard);
  [[noreturn]] void refuse_non_finite(int epoch, const char* what) {
    refuse_non_finite(epoch, what, model_->find_non_finite(), train_->shard());
  }
  EpochReport summarise(int epoch, double loss, double seconds, double lr,
                        const TrafficBytes& before, std::int64_t fp32_before);
  TrafficBytes traffic() const;

  const RunPlan& plan_;
  Communicator& comm_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<RankGraph> train_;
  std::unique_ptr<RankGraph> whole_;  ///< Inductive training only.
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  PhaseClock clock_;
  std::unique_ptr<StaleHalo> halo_;
  double loss_ = 0;  ///< Of this rank, later of all; travels while backward runs.
  AllReduce weights_;
  AllReduce statistics_;
  std::vector<double> rank_statistics_;
  ConstMatrixView logits_;  ///< Of the last evaluation.
  std::vector<std::int32_t> kept_predictions_;
  std::vector<float> kept_scores_;
  CountedBytes kept_;
};

}  // namespace heliograph
