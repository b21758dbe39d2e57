#pragma once

#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "comm/collectives.hpp"
#include "comm/communicator.hpp"
#include "core/function_ref.hpp"
#include "core/host_copy.hpp"
#include "heliograph/train.hpp"
#include "layers/model.hpp"
#include "staleness/stale_halo.hpp"
#include "train/checkpoint/safetensors.hpp"
#include "train/checkpoint/state_file.hpp"
#include "train/optimizer.hpp"
#include "train/plan/rank_graph.hpp"
#include "train/plan/run_plan.hpp"

namespace heliograph {

/// What the outside asks of a run.
struct RunRequests {
  bool stop = false;
  bool save = false;
};

struct EpochEnd {
  EpochReport report;
  RunRequests asked;  ///< Of any rank.
};

/// Trains one rank. Every rank makes the same calls; used by the rank's own thread.
class Trainer {
 public:
  /// `data`: what this rank holds of the plan's training graph. References must outlive the
  /// trainer. `account`: of the host's memory.
  Trainer(const RunPlan& plan, RankData data, Communicator& comm, MemoryAccount* account);

  /// One epoch: forward, loss, backward, all-reduce, step. `asks` is called at its end. What is
  /// returned is the same on every rank.
  /// Throws Error: numeric (loss or gradient is not finite: names layer, node and epoch),
  /// peer_lost.
  EpochEnd run_epoch(int epoch, FunctionRef<RunRequests()> asks);

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

  // What a checkpoint holds of a trainer, of which `epochs` epochs have run. Reading follows
  // nothing but the constructor. (trainer_state.cpp)

  /// The weights by name, where the host can read them until the next call; equal on every rank.
  std::vector<NamedTensor> weights();
  /// Takes what was written to what `weights` has given.
  void store_weights();
  /// Of the last epoch, laid out as Parameters::flat_gradients_f32 and summed over ranks; empty
  /// with
  /// --reproducible.
  std::span<const float> gradients() const;
  /// The optimizer's state; equal on every rank.
  void write_optimizer(StateWriter& file);
  void read_optimizer(const StateFile& file);
  /// What this rank alone holds: kept predictions, what was sent so far, and the halo rows that
  /// later epochs use. Waits for what is in flight. Reading throws Error(bad_input) that names file
  /// and section, as `read_optimizer` does.
  void write_rank(StateWriter& file, int epochs, std::int64_t evaluation_bytes);
  void read_rank(const StateFile& file, int epochs);

  /// Bytes that this rank has sent outside the epochs: precomputation and evaluation, those of the
  /// run that this one goes on from included, those of saving not.
  std::int64_t evaluation_bytes() const {
    return comm_.bytes_sent(Channel::evaluation) + evaluation_bytes_before_;
  }
  /// Leaves out what was sent since `evaluation_bytes` gave `bytes`.
  void set_evaluation_bytes(std::int64_t bytes) {
    evaluation_bytes_before_ = bytes - comm_.bytes_sent(Channel::evaluation);
  }

  /// Waits for halos in flight.
  void finish() { halo_->drain(); }

  const Model& model() const { return *model_; }

  /// Whether this rank asks its device for CUDA graphs of what epochs repeat.
  bool takes_cuda_graphs() const;

  /// What training holds: on its device, where that is not the host.
  MemoryAccount& memory() { return *account_; }

 private:
  bool on_host() const { return kernels_->device().on_host(); }
  /// `at`, or a copy of it in `copy` where the host cannot read it.
  template <class T>
  std::span<T> fetch(std::span<T> at, std::vector<std::remove_const_t<T>>& copy) const;
  /// Puts back what `fetch` has given.
  template <class T>
  void store(std::span<T> at, std::span<const T> fetched) const;
  void sum_gradients();
  double loss_and_gradient(ConstMatrixView logits);
  template <class T>
  void begin_sum(std::span<T> gradients, std::int64_t begin, std::int64_t end);
  /// Collective; `mine`: what this rank found in rows of `shard`.
  [[noreturn]] void refuse_non_finite(int epoch, const char* what,
                                      std::optional<Model::NonFinite> mine, const Shard& shard);
  [[noreturn]] void refuse_non_finite(int epoch, const char* what) {
    refuse_non_finite(epoch, what, model_->find_non_finite(), train_->shard());
  }
  /// The first epoch whose halo rows are used after `epochs` epochs.
  std::int64_t first_used(int epochs) const;
  EpochEnd summarise(int epoch, double loss, double seconds, double lr, const TrafficBytes& before,
                     std::int64_t fp32_before, RunRequests asked);
  TrafficBytes traffic() const;

  const RunPlan& plan_;
  Communicator& comm_;
  std::unique_ptr<Kernels> kernels_;
  MemoryAccount device_account_;
  MemoryAccount* account_;  ///< Of what kernels read.
  MemoryAccount page_locked_;
  /// The host's copy of the gradients, where they lie elsewhere. Goes after what ends messages.
  Buffer gradients_;
  std::unique_ptr<RankGraph> train_;
  std::unique_ptr<RankGraph> whole_;  ///< Inductive training only.
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  PhaseClock times_;
  PhaseClock asking_;  ///< A device's kernels take no time to ask for; nothing is reported of it.
  std::unique_ptr<StaleHalo> halo_;
  double loss_ = 0;  ///< Of this rank, later of all; travels while backward runs.
  std::vector<float> weights_copy_;
  AllReduce weights_;
  AllReduce statistics_;
  std::vector<double> rank_statistics_;
  HostCopy logits_copy_;
  ConstMatrixView logits_;  ///< Of the last evaluation.
  std::vector<std::int32_t> kept_predictions_;
  std::vector<float> kept_scores_;
  CountedBytes kept_;
  std::int64_t evaluation_bytes_before_ = 0;
};

template <class T>
std::span<T> Trainer::fetch(std::span<T> at, std::vector<std::remove_const_t<T>>& copy) const {
  if (on_host()) return at;
  copy.resize(at.size());
  kernels_->device().download(copy.data(), at.data(), at.size_bytes());
  return copy;
}

template <class T>
void Trainer::store(std::span<T> at, std::span<const T> fetched) const {
  if (!on_host()) kernels_->device().upload(at.data(), fetched.data(), at.size_bytes());
}

}  // namespace heliograph
