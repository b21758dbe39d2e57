#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heliograph/dataset.hpp"
#include "heliograph/log.hpp"
#include "heliograph/model.hpp"
#include "heliograph/options.hpp"
#include "heliograph/traffic.hpp"
#include "heliograph/verification.hpp"

namespace heliograph {

/// Wall time of an epoch by kind of work, in seconds, as means over ranks. The members sum to the
/// epoch's time.
struct EpochSeconds {
  double aggregate = 0, gemm = 0, encode = 0, exposed_comm = 0, allreduce = 0, other = 0;
};

/// What TrainOptions::guard did before an epoch.
struct GuardAction {
  int epochs = 0;  ///< How many had run when the run had the weights to which it went back.
  Bits bits_forward = Bits::fp32;  ///< Of later rows, none of which are late.
  Bits bits_backward = Bits::fp32;
};

/// How rows are exchanged from an epoch on, if BitsPolicy::trend has changed it.
struct TrendAction {
  Bits bits_forward = Bits::fp32;
  Bits bits_backward = Bits::fp32;
  int staleness = 0;
};

/// Loss, scores, times and bytes of one epoch, over all ranks.
struct EpochReport {
  int epoch = 0;
  /// Mean over training nodes, and over classes if the task is multi-label; of squared errors in
  /// standard deviations of the training targets if it is regression.
  double loss = 0;
  std::optional<double> train_metric;  ///< Scores are set if this epoch was evaluated.
  std::optional<double> val_metric;
  std::optional<double> test_metric;
  double seconds = 0;  ///< Of the slowest rank, without evaluation.
  EpochSeconds parts;
  TrafficBytes bytes;
  std::int64_t fp32_bytes = 0;               ///< All boundary rows at 4 bytes a value.
  int lag = 0;                               ///< Age of the halo values that late exchanges used.
  double lr = 0;                             ///< Learning rate.
  std::optional<Verification> verification;  ///< If this epoch was verified.
  std::optional<GuardAction> guard;          ///< If the run went back before this epoch.
  std::optional<TrendAction> trend;          ///< If the exchanges changed before this epoch.
};

/// Peak memory of ranks by use, in bytes, summed over ranks. Memory that ranks share, such as the
/// data set and the partition, is not included.
struct MemoryReport {
  std::int64_t graph = 0, features = 0, activations = 0, gradients = 0, halo = 0, weights = 0,
               workspace = 0, evaluation = 0;

  std::int64_t total() const {
    return graph + features + activations + gradients + halo + weights + workspace + evaluation;
  }
};

/// The result of a run. Its outputs are those at `best_epoch`; there are none without evaluation.
struct TrainResult : Outputs {
  std::vector<EpochReport> epochs;
  Metric metric = Metric::accuracy;  ///< Never `automatic`.
  std::string stop_reason;           ///< "completed", "early_stopping" or "interrupted".
  /// By validation score, the first among equals; the last evaluated epoch if validation scores are
  /// not defined. -1: none was evaluated.
  int best_epoch = -1;
  /// At best_epoch; NaN without an evaluation, or if the metric is not defined for such nodes:
  /// none, one for r2, nodes of one class for auc and ap.
  double val_metric = 0, test_metric = 0;
  /// The weights at best_epoch; those of the last epoch if none was evaluated.
  std::optional<Model> model;
  TrafficBytes bytes_per_epoch;           ///< Mean over epochs.
  std::int64_t fp32_bytes_per_epoch = 0;  ///< All boundary rows at 4 bytes a value.
  std::vector<ExchangeSite> sites;        ///< The exchanges of the model, as they were at the end.
  std::vector<LinkTraffic> halo_traffic;  ///< Of the whole run, by sender, site and receiver.
  /// Precomputation, evaluations and statistics, all ranks; not counted are 8 bytes an epoch of
  /// each message that tells whether to stop, what saving takes, and the last pass, which gives the
  /// outputs of the best weights.
  std::int64_t evaluation_bytes = 0;
  int cuda_graph_ranks = 0;  ///< Number of ranks that use CUDA graphs.
  MemoryReport memory;
  /// Largest resident memory of the process, or of all processes together, while training.
  std::int64_t peak_rss_bytes = 0;
  std::int64_t setup_peak_rss_bytes = 0;  ///< The same for loading, partitioning and setup.
  std::int64_t shard_bytes = 0;    ///< Size of the shards that ranks as processes read; else 0.
  std::int64_t loading_bytes = 0;  ///< Most resident memory that reading them took; else 0.
  double setup_seconds = 0;        ///< From the call to the first epoch.
  PartitionQuality partition;
  std::string partition_hash;
  std::optional<CoverCounts> covers;  ///< If the run exchanged rows and sums of covers.
  bool kept_columns = false;          ///< If exchanges left out columns that dropout drops.
  std::int64_t parameters = 0;        ///< Number of weights of the model.
};

/// Asks a run to stop at the end of the current epoch. Set from any thread or signal handler.
using StopFlag = std::atomic<bool>;

/// Asks a run to save a checkpoint at the end of the current epoch and to continue. The run clears
/// the flag when it sees it.
using SaveFlag = std::atomic<bool>;

/// What a run does after an epoch.
enum class EpochAction : std::uint8_t {
  proceed,
  stop,  ///< The epoch was the last one. With a checkpoint folder, the run saves a checkpoint.
};

struct TrainCallbacks {
  /// Called after each epoch, on rank 0's thread.
  std::function<EpochAction(const EpochReport&)> on_epoch;
  /// Called on rank 0's thread once a checkpoint has been read, with the epochs that had run.
  std::function<void(std::span<const EpochReport>)> on_resume;
  /// Called on rank 0's thread before the first checkpoint of this call is written. If it throws,
  /// the checkpoint is not saved, and the run ends or goes on as after any failed save.
  std::function<void()> before_saving;
  LogCallback log;
  /// With a checkpoint folder, a run that this stops saves a checkpoint. Without one it leaves out
  /// the evaluation of its last epoch, so that it ends soon.
  const StopFlag* stop = nullptr;
  SaveFlag* save = nullptr;
};

/// Trains on the whole graph with `options.partition.parts` ranks in this process, from the
/// beginning or from a checkpoint (docs/checkpoints.md), with the same bits either way. Returns
/// when the run has ended. Several threads may call it on different data sets. With
/// TransportKind::mpi or tcp each process is one rank and calls it for one run at a time, with mpi
/// on its main thread; rank 0 returns the result, the other ranks only its stop_reason
/// (docs/processes.md). Throws Error. An exception that a callback throws ends the run and is
/// thrown as it is; ranks in other processes throw Error(peer_lost) with its text.
TrainResult train(const Dataset& dataset, const TrainOptions& options,
                  const TrainCallbacks& callbacks = {});

/// Whether a run over NCCL that failed has left messages that a device will never complete, because
/// NCCL did not abort them in time. Then the memory of that run is not freed, and later runs on
/// CUDA devices are refused. The process should save what it needs and end with std::_Exit:
/// destructors, exit handlers and calls of CUDA or NCCL may wait for those messages forever. Call
/// it after train() has thrown; once true, it stays true. Any thread may call it.
bool devices_hang() noexcept;

}  // namespace heliograph
