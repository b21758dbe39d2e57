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
#include "heliograph/options.hpp"
#include "heliograph/traffic.hpp"

namespace heliograph {

/// Where an epoch's wall time went, seconds, mean over ranks; they sum to the epoch's time.
struct EpochSeconds {
  double aggregate = 0, gemm = 0, encode = 0, exposed_comm = 0, allreduce = 0, other = 0;
};

/// What one epoch did. Made on rank 0; equal on every rank.
struct EpochReport {
  int epoch = 0;
  double loss = 0;                     ///< Mean over the training nodes (and classes, multi-label).
  std::optional<double> train_metric;  ///< Set when this epoch was evaluated.
  std::optional<double> val_metric;
  std::optional<double> test_metric;
  double seconds = 0;  ///< Slowest rank, evaluation excluded.
  EpochSeconds parts;
  TrafficBytes bytes;
  std::int64_t fp32_bytes = 0;  ///< The same halo messages at 4 bytes a value, no parameters.
  int lag = 0;                  ///< Age of the halo values used, in epochs.
  double lr = 0;
};

/// Peak memory of what ranks hold, by use, bytes, summed over ranks. What they share (data set,
/// split, partition) is not in it.
struct MemoryReport {
  std::int64_t graph = 0, features = 0, activations = 0, gradients = 0, halo = 0, weights = 0,
               workspace = 0, evaluation = 0;

  std::int64_t total() const {
    return graph + features + activations + gradients + halo + weights + workspace + evaluation;
  }
};

struct TrainResult {
  std::vector<EpochReport> epochs;
  Metric metric = Metric::accuracy;  ///< Never `automatic`.
  std::string stop_reason;           ///< "completed", "early_stopping" or "interrupted".
  int best_epoch = -1;               ///< By validation; the first among equals. -1: none evaluated.
  double val_metric = 0, test_metric = 0;  ///< At best_epoch; NaN: no such nodes, or no evaluation.
  /// Predictions at best_epoch in the user's node order, nodes x prediction_cols row-major:
  /// class ids (multi-class, 1 column) or 0/1 indicators (multi-label, one column a class).
  std::vector<std::int32_t> predictions;
  std::int32_t prediction_cols = 1;
  std::vector<float> scores;              ///< Metric::auc only: score of class 1, one a node.
  TrafficBytes bytes_per_epoch;           ///< Mean over epochs.
  std::int64_t fp32_bytes_per_epoch = 0;  ///< The same halo messages at 4 bytes a value.
  std::vector<ExchangeSite> sites;        ///< Of the model's exchanges.
  std::vector<LinkTraffic> halo_traffic;  ///< Whole run; by sender, site, receiver.
  std::int64_t evaluation_bytes = 0;  ///< Precomputation, evaluations and statistics, all ranks.
  int cuda_graph_ranks = 0;           ///< That asked their device for CUDA graphs; 0 without CUDA.
  MemoryReport memory;
  std::int64_t peak_rss_bytes = 0;  ///< Of training; the peak is reset after setup.
  std::int64_t setup_peak_rss_bytes = 0;
  std::int64_t shard_bytes = 0;    ///< Files that ranks as processes have read; else 0.
  std::int64_t loading_bytes = 0;  ///< Resident memory taken at most while reading them.
  double setup_seconds = 0;        ///< Partition, shards, precomputation.
  PartitionQuality partition;
  std::string partition_hash;
  std::int64_t parameters = 0;
};

/// Asks a run to stop at the end of the current epoch. Set from any thread or signal handler.
using StopFlag = std::atomic<bool>;

/// Asks a run to save a checkpoint at the end of the current epoch and to go on. The run takes it
/// back when it has seen it.
using SaveFlag = std::atomic<bool>;

struct TrainCallbacks {
  std::function<void(const EpochReport&)> on_epoch;  ///< Called on rank 0's thread, in order.
  /// Of a run that goes on from a checkpoint: the epochs before, once, on rank 0's thread, when
  /// the checkpoint has been read and before the first epoch.
  std::function<void(std::span<const EpochReport>)> on_resume;
  LogCallback log;
  /// With a checkpoint folder, a stopped run saves one.
  const StopFlag* stop = nullptr;
  SaveFlag* save = nullptr;
};

/// Trains on the whole graph with `options.partition.parts` ranks in this process; from the
/// beginning or from a checkpoint (docs/checkpoints.md), with the same bits either way.
/// Blocks until done; safe to call from several threads on different data sets. With
/// TransportKind::mpi or tcp every process is one rank and calls it, one run at a time (mpi: on its
/// main thread); rank 0 returns the result, the others an empty one (docs/processes.md). Throws
/// Error; whatever was reported through `on_epoch` before stays true. An exception of a callback
/// ends the run too; if it is no Error, it comes back as Error(peer_lost) with its text.
TrainResult train(const Dataset& dataset, const TrainOptions& options,
                  const TrainCallbacks& callbacks = {});

/// Whether a run over NCCL that has failed has left messages behind which a device will never be
/// done with: NCCL did not give them up in time. What the run held is not freed then, and runs on
/// CUDA devices are refused. The process should save what it needs and end by std::_Exit: what runs
/// at an ordinary end, or when CUDA or NCCL are used, may wait for those messages for ever. Ask
/// when train() has thrown; once true it stays so. Any thread.
bool devices_hang() noexcept;

}  // namespace heliograph
