#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "heliograph/io.hpp"
#include "heliograph/partition.hpp"

namespace heliograph {

enum class ModelKind : std::uint8_t { gcn, sage };
enum class NormLayer : std::uint8_t { none, layer };
enum class Schedule : std::uint8_t { constant, cosine, step };
enum class Metric : std::uint8_t { automatic, accuracy, f1, auc };
enum class TransportKind : std::uint8_t {
  threads,
  mpi,
  nccl,
  tcp,        ///< Processes that torchrun, or its variables, bring together.
  automatic,  ///< threads; in the command mpi or tcp, where it was started as one of several.
};
enum class DeviceKind : std::uint8_t { cpu, cuda };

/// How training keeps the rows of a rank's own nodes while it sums them into their neighbours.
/// Sums are fp32 in both; rows of other ranks keep the bits of ExchangeOptions.
enum class RowStorage : std::uint8_t {
  fp32,
  bf16,  ///< Rounded to nearest: half the bytes are read. Evaluation stays exact.
};

/// How ranks number their nodes: for speed only, results differ by rounding alone.
enum class NodeOrder : std::uint8_t {
  automatic,  ///< cluster; id where the graph is no larger than a cluster, or dense.
  id,         ///< As the user numbers them.
  random,     ///< An order that has nothing to do with the graph, to compare with.
  cluster,    ///< Nodes that share neighbours side by side, in groups that fit a cache.
};

/// The network: what is learned.
struct ModelOptions {
  ModelKind kind = ModelKind::sage;
  int layers = 3;
  int hidden = 128;
  float dropout = 0.5F;  ///< Probability of zeroing, on every layer's input; resolution 2^-16.
  NormLayer norm = NormLayer::layer;
  bool residual = false;        ///< Adds a hidden layer's input to its output where widths agree.
  bool precompute = true;       ///< First aggregation once, before the first epoch.
  bool transform_first = true;  ///< Multiply by W before aggregating where that is narrower.
  RowStorage aggregate_storage = RowStorage::fp32;  ///< Not bf16 with `reproducible`.
};

/// What travels between ranks, and how late it may be.
struct ExchangeOptions {
  int bits_forward = 32;  ///< 1, 2, 4, 8, 16 (bf16) or 32.
  int bits_backward = 32;
  int staleness = 0;      ///< S: the largest age, in epochs, of halo values.
  int sync_every = 0;     ///< N > 0: every epoch e with e % N == 0 is synchronous.
  int warmup_epochs = 0;  ///< The first epochs that are synchronous.
};

struct OptimizerOptions {  // Adam: Kingma and Ba, 2015, algorithm 1.
  float lr = 0.01F;
  float weight_decay = 0.0F;  ///< L2, added to the gradient of weight matrices (not biases).
  float clip_norm = 0.0F;     ///< 0: no clipping of the global gradient norm.
  Schedule schedule = Schedule::constant;
  int step_size = 100;      ///< Schedule::step: epochs between drops.
  float step_gamma = 0.5F;  ///< Schedule::step: factor of a drop.
};

/// Whether a rank's threads keep to CPUs of their own: its share of those that the process may use,
/// or one that other ranks have too. Ranks of the threads transport; mpirun binds its processes.
enum class Pinning : std::uint8_t {
  automatic,  ///< Where there are more ranks than CPUs.
  on,
  off,
};

/// Whether ranks on CUDA devices ask for the kernels of an epoch by CUDA graphs: a few launches
/// instead of dozens. The numbers are the same.
enum class CudaGraphs : std::uint8_t {
  automatic,  ///< Where a rank's matrices are so small that launching takes as long as computing.
  on,
  off,
};

/// Whether MPI is handed memory of CUDA devices.
enum class CudaAwareMpi : std::uint8_t {
  automatic,  ///< Where its library says that it is CUDA-aware.
  on,         ///< Refuses to run where it does not.
  off,        ///< Messages are staged on the host.
};

struct TransportOptions {
  TransportKind kind = TransportKind::automatic;
  DeviceKind device = DeviceKind::cpu;
  CudaGraphs cuda_graphs = CudaGraphs::automatic;  ///< Not on without CUDA devices.
  int threads_per_rank = 0;  ///< 0: the cores this process may use over the ranks, at least 1.
  Pinning pin = Pinning::automatic;
  double link_gbps = 0.0;  ///< Each directed link; 0: unshaped. Threads transport only.
  double link_latency_us = 0.0;
  CudaAwareMpi cuda_aware_mpi = CudaAwareMpi::automatic;
  bool nccl_register = false;      ///< NCCL: halo buffers are registered with it (docs/gpu.md).
  double timeout_seconds = 120.0;  ///< Longest wait for a peer that makes no progress.
  /// Ranks that are processes: seconds without a sign of life after which a rank counts as lost, by
  /// what it was doing.
  double silence_loading = 9.0, silence_training = 9.0, silence_saving = 9.0;
};

/// What a run does when a checkpoint cannot be written.
enum class SaveFailure : std::uint8_t {
  keep_going,  ///< Warns and goes on; the checkpoints before it stay as they are.
  stop,        ///< Ends with Error(resource).
};

/// Where and when a run saves itself, and what it goes on from (docs/checkpoints.md).
struct CheckpointOptions {
  /// Folder of this run's checkpoints, which one process at a time uses; the last two are kept.
  /// Empty: nothing is saved.
  std::filesystem::path folder;
  int every = 0;  ///< Epochs between checkpoints; 0: only when asked or stopped by the callbacks.
  SaveFailure on_failure = SaveFailure::keep_going;
  std::filesystem::path resume;  ///< The checkpoint to go on from; empty: from the beginning.
};

struct TrainOptions {
  ModelOptions model;
  ExchangeOptions exchange;
  OptimizerOptions optimizer;
  TransportOptions transport;
  PartitionOptions partition;  ///< `parts` is the number of ranks.
  NodeOrder node_order = NodeOrder::automatic;
  CheckpointOptions checkpoint;

  int epochs = 200;
  int eval_every = 1;
  int patience = 0;  ///< Early stop after so many evaluations without a better one; 0: never.
  std::uint64_t seed = 1;
  Metric metric = Metric::automatic;
  Normalization normalize = Normalization::none;
  bool inductive = false;     ///< Train on the graph induced by the training nodes.
  bool reproducible = false;  ///< fp64 accumulation everywhere (docs/architecture.md).
  bool tf32 = false;  ///< Training's matrix products round their factors to TF32; on CUDA only.

  int split = 0;              ///< Index into Dataset::splits ...
  bool random_split = false;  ///< ... or a random split:
  double train_share = 60, validation_share = 20, test_share = 20;  ///< Per cent.
  std::uint64_t split_seed = 0;
  bool stratified = false;

  std::int64_t eval_chunk_bytes = std::int64_t{64}
                                  << 20;  ///< Bound on a rank's fp32 halo while evaluating.
  std::int64_t memory_limit_bytes = 0;    ///< Most that training may need; 0: what is available.
};

/// Checks every value and combination that can be checked without data.
/// Throws Error(usage) with one sentence that names the option as the command spells it.
void validate(const TrainOptions& options);

}  // namespace heliograph
