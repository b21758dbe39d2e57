#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "heliograph/activation.hpp"
#include "heliograph/io.hpp"
#include "heliograph/partition.hpp"
#include "heliograph/split.hpp"

namespace heliograph {

/// The architecture (docs/models.md).
enum class ModelKind : std::uint8_t {
  gcn,
  sage,
  gin,
  appnp,
  dagnn,
  jknet,
  gcnii,
  gat,
  gat_sep,
  gatv2
};
/// Normalisation of hidden values.
enum class NormLayer : std::uint8_t {
  automatic,  ///< none for appnp, dagnn and gcnii, layer for the others.
  none,
  layer,  ///< LayerNorm of each row.
  batch,  ///< BatchNorm of each column over the rows of all ranks.
};
enum class Residual : std::uint8_t {
  none,
  identity,  ///< Adds hidden layers' inputs to outputs of the same width.
  linear,    ///< Adds a learned linear map of each layer's input, before the normalisation.
};
/// How a final linear map reads the outputs of all layers: not at all, side by side, or their
/// maximum or sum element by element.
enum class JumpingKnowledge : std::uint8_t { none, concat, max, sum };
enum class Schedule : std::uint8_t { constant, cosine, step };
enum class Metric : std::uint8_t {
  automatic,  ///< f1 for multi-label, r2 for regression, auc for two classes, otherwise accuracy.
  accuracy,   ///< The share of nodes whose class is predicted; multi-class only.
  f1,         ///< F1, micro-averaged over all nodes and classes.
  auc,        ///< Area under the ROC curve; two classes only.
  /// The mean of the classes' F1, as scikit-learn's f1_score(average="macro", zero_division=0):
  /// over the classes that a node of the set has or is predicted to have; multi-label: over all
  /// classes, with 0 for a class that no node has or is predicted to have.
  macro_f1,
  /// Average precision, as scikit-learn's average_precision_score: the mean of the precision at
  /// every rank of a node of class 1; two classes only.
  average_precision,
  /// The coefficient of determination, as scikit-learn's r2_score: 1, or 0 with an error, where all
  /// targets are equal, and NaN for a single node; regression only.
  r2,
  rmse,  ///< Root of the mean squared error, of which less is better; regression only.
};
enum class TransportKind : std::uint8_t {
  threads,
  mpi,
  nccl,
  tcp,        ///< Processes that torchrun starts, or that have its environment variables.
  automatic,  ///< threads; for the command mpi or tcp, if it was started as one of several.
};
enum class DeviceKind : std::uint8_t { cpu, cuda };

/// Number format in which training stores the rows of a rank's own nodes while it sums neighbours.
/// Sums are fp32 with either; rows of other ranks have the bits of ExchangeOptions.
enum class RowStorage : std::uint8_t {
  fp32,
  bf16,  ///< Rounded to nearest, so that half the bytes are read. Evaluation stays exact.
};

/// How ranks number their nodes. This changes speed; results differ by rounding only.
enum class NodeOrder : std::uint8_t {
  automatic,  ///< cluster; id if the graph is no larger than a cluster, or dense.
  id,         ///< The order of the user's numbers.
  random,     ///< A random order, to compare with.
  cluster,    ///< Nodes that share neighbours are side by side, in groups that fit a cache.
};

/// The model.
struct ModelOptions {
  ModelKind kind = ModelKind::sage;
  int layers = 3;
  int hidden = 128;
  float dropout = 0.5F;  ///< Probability of zeroing, on every layer's input; resolution 2^-16.
  std::optional<float> input_dropout;  ///< The same for the features; unset: `dropout`.
  NormLayer norm = NormLayer::automatic;
  ActivationFunction activation = ActivationFunction::relu;
  Residual residual = Residual::none;
  /// Normalises layers' inputs; needs linear maps of input and output, and identity.
  bool pre_norm = false;
  bool input_linear = false;   ///< A linear map and activation before the first layer.
  bool output_linear = false;  ///< The logits are a linear map of the last hidden layer.
  int feed_forward = 0;  ///< N > 0: layers end in a GELU block N times as wide inside as `hidden`.
  JumpingKnowledge jk = JumpingKnowledge::none;  ///< jknet: none counts as concat.
  int hops = 10;                                 ///< appnp, dagnn: propagations after the MLP.
  float teleport = 0.1F;     ///< appnp: the share of the MLP's output in every propagation.
  bool eps_learned = false;  ///< gin: learns the weight of a node's own row, which begins as 1.
  float theta = 0.5F;        ///< gcnii: layer l has the share ln(theta / l + 1) of its weight.
  float alpha = 0.1F;        ///< gcnii: the share of the first hidden layer in every other.
  int heads = 4;             ///< gat, gat_sep, gatv2: attention heads of a layer.
  int output_heads = 0;      ///< gat, gatv2: heads of the layer that makes the logits; 0: `heads`.
  /// gat, gat_sep, gatv2: heads of hidden layers have `hidden` columns together, and are side by
  /// side; otherwise each has `hidden` columns, and their mean is the output.
  bool concat_heads = true;
  float attention_dropout = 0.0F;  ///< Probability of dropping a weight of attention.
  float negative_slope = 0.2F;     ///< LeakyReLU's slope below 0 in scores of attention.
  bool precompute = true;          ///< Aggregates the input features once, before the first epoch.
  bool transform_first = true;  ///< Multiplies by W before aggregating if that gives fewer columns.
  RowStorage aggregate_storage = RowStorage::fp32;  ///< `reproducible` refuses bf16.
};

/// Bits per value of exchanged rows. Its number is the value of the enumerator.
enum class Bits : int { one = 1, two = 2, four = 4, eight = 8, bf16 = 16, fp32 = 32 };

constexpr int bit_count(Bits bits) { return static_cast<int>(bits); }

/// What ranks send for the edges between their parts.
enum class ExchangedRows : std::uint8_t {
  boundary,  ///< The row of each node with a neighbour on the receiving rank.
  /// For a smallest cover of these edges: rows of sources, and for targets the sums of their other
  /// sources. Fewer rows; attention and `reproducible` refuse it.
  cover,
  /// `cover` where that costs less, by the number of rows or the given link rate; likewise
  /// `ExchangeOptions::kept_columns`, by bits or the given link rate.
  automatic,
};

/// How bits of rows differ from those of the options, to compare with Sylvie's adaptive version
/// (docs/auto_bits.md). CPUs only, but for `uniform`.
enum class BitsPolicy : std::uint8_t {
  uniform,  ///< They do not.
  /// By a node's in-degree: of the rows that a rank sends at a site, the quarter of the lowest ones
  /// have the bits of the options, the next twice as many and so on, up to 8; from 2 bits on,
  /// thirds or halves. Equal degrees have equal bits. For `ExchangedRows::boundary` without
  /// attention.
  degree,
  /// By the trend of the loss: all bits double, up to 8, or halve. Lag ends as they double, and
  /// begins again as they halve.
  trend,
  degree_trend,  ///< Both.
};

/// How ranks exchange rows and weight gradients: which rows, in how many bits, and how old they may
/// be.
struct ExchangeOptions {
  ExchangedRows rows = ExchangedRows::boundary;
  /// Leaves out the columns of a row that dropout drops, which both ends know: of rows of hidden
  /// values after ReLU and dropout that a layer aggregates before it multiplies them by W, and, if
  /// staleness is 0, of partial sums of gradients of values after dropout. Results do not change.
  bool kept_columns = false;
  Bits bits_forward = Bits::fp32;   ///< Of features.
  Bits bits_backward = Bits::fp32;  ///< Of feature gradients.
  /// If not empty, each row has 1, 2 or 4 bits: at least those of its direction, which must be at
  /// most 4, and more where its rounding adds more to errors of sums. They are chosen after epochs
  /// 0, 24, 49, ... so that rows take, in the mean of epochs, no more bytes than this budget or, if
  /// that is more, than at the fewest bits.
  /// "auto": that of boundary rows with all columns at the fewest bits.
  /// "auto:B": the same at B bits a value, from 1 to 4.
  /// "auto:SIZE": SIZE bytes over all ranks, such as "auto:20MB".
  /// Columns that dropout drops stay behind as with `kept_columns`.
  std::string auto_bits;
  /// Other policies than `uniform` need at most 8 bits, and no `auto_bits`.
  BitsPolicy bits_policy = BitsPolicy::uniform;
  /// Of weight gradients: fp32, or integers of 16, 8 or 4 bits that are rounded at random without
  /// bias. Below 32 bits results depend on the number of ranks.
  Bits gradient_bits = Bits::fp32;
  int staleness = 0;  ///< S: the largest age, in epochs, of halo values.
  /// Which exchanges S applies to; the others are synchronous. "all", "lowest-backward" (the last
  /// of an epoch, whose gradients reach the fewest weights: in gcn and sage the first layer's, in
  /// appnp and dagnn all that come before the hops), or names of sites with commas.
  std::string stale_sites = "lowest-backward";
  int sync_every = 0;     ///< N > 0: every epoch e with e % N == 0 is synchronous.
  int warmup_epochs = 0;  ///< The first epochs that are synchronous.
};

enum class OptimizerKind : std::uint8_t {
  adam,   ///< Adam (Kingma and Ba, 2015, algorithm 1), which decays weights by an L2 penalty.
  adamw,  ///< Adam with decoupled decay (Loshchilov and Hutter, 2019).
};

/// The optimizer and its learning rate.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adam;
  float lr = 0.01F;
  /// Of weight matrices (not biases). adam adds it times the weight to the gradient; adamw takes it
  /// times the learning rate times the weight from the weight.
  float weight_decay = 0.0F;
  float clip_norm = 0.0F;  ///< 0: no clipping of the global gradient norm.
  /// Epochs N in which the learning rate rises in equal steps, from lr / N to lr. The schedule
  /// begins after them.
  int lr_warmup = 0;
  Schedule schedule = Schedule::constant;
  int step_size = 100;      ///< Schedule::step: epochs between drops.
  float step_gamma = 0.5F;  ///< Schedule::step: factor of a drop.
};

/// Weights of classes in the loss. The loss is divided by the sum of the training nodes' weights.
enum class ClassWeights : std::uint8_t {
  none,      ///< All are 1.
  balanced,  ///< n / (C n_c) for n training nodes, n_c of them of class c, of C classes.
};

/// The loss of tasks with one class a node, as PyTorch's CrossEntropyLoss.
struct LossOptions {
  float label_smoothing = 0.0F;  ///< E: a node's target is 1 - E in its class, plus E / C in each.
  ClassWeights class_weights = ClassWeights::none;
};

/// Whether the threads of a rank are pinned to its share of the process's CPUs, which is one CPU
/// that ranks share if there are more ranks than CPUs. For TransportKind::threads only.
enum class Pinning : std::uint8_t {
  automatic,  ///< If there are more ranks than CPUs.
  on,
  off,
};

/// Whether ranks on CUDA devices launch the kernels of an epoch as a few CUDA graphs instead of one
/// by one. Results are the same.
enum class CudaGraphs : std::uint8_t {
  automatic,  ///< If a rank's matrices are so small that launching takes as long as computing.
  on,
  off,
};

/// Whether MPI reads and writes memory of CUDA devices.
enum class CudaAwareMpi : std::uint8_t {
  automatic,  ///< If the MPI library says that it is CUDA-aware.
  on,         ///< Refuses to run if the library does not say so.
  off,        ///< Messages are copied through memory of the host.
};

struct TransportOptions {
  TransportKind kind = TransportKind::automatic;
  DeviceKind device = DeviceKind::cpu;
  CudaGraphs cuda_graphs = CudaGraphs::automatic;  ///< `on` needs CUDA devices.
  /// 0 divides the cores of this process, or its CPU quota, among its ranks; 1 at least.
  int threads_per_rank = 0;
  Pinning pin = Pinning::automatic;
  /// Limits of each link in each direction, for TransportKind::threads only. 0: no limit.
  double link_gbps = 0.0;
  double link_latency_us = 0.0;
  /// In how many blocks of rows a rank runs a pass: the rows of a block travel while the next is
  /// computed, with a second pair of halo buffers. 0: by the number of rows, and 1 on a CUDA device
  /// or if all are late, since no rank waits for these, or above 8 bits. Changes no number, except
  /// rounding on a CUDA device.
  int row_blocks = 0;
  CudaAwareMpi cuda_aware_mpi = CudaAwareMpi::automatic;
  bool nccl_register = false;      ///< Registers halo buffers with NCCL (docs/gpu_design.md).
  double timeout_seconds = 120.0;  ///< Longest wait for a peer that makes no progress.
  /// Seconds without a sign of life after which a rank that is a process counts as lost, while it
  /// loads, trains and writes results.
  double silence_loading = 9.0, silence_training = 9.0, silence_saving = 9.0;
};

/// What a run does if a checkpoint cannot be written.
enum class SaveFailure : std::uint8_t {
  keep_going,  ///< Warns and continues; earlier checkpoints remain.
  stop,        ///< Ends with Error(resource).
};

/// Where and when a run saves checkpoints, and which one it resumes (docs/checkpoints.md).
struct CheckpointOptions {
  /// Folder of this run's checkpoints, of which the last two are kept. One run at a time may use
  /// it. Empty: nothing is saved, and `every` must be 0.
  std::filesystem::path folder;
  /// Epochs between checkpoints. 0: only when the callbacks ask to save or stop, and at the end of
  /// a run that has saved or resumed one.
  int every = 0;
  SaveFailure on_failure = SaveFailure::keep_going;
  std::filesystem::path resume;  ///< The checkpoint to resume; empty: start a new run.
};

struct TrainOptions {
  ModelOptions model;
  ExchangeOptions exchange;
  OptimizerOptions optimizer;
  LossOptions loss;
  TransportOptions transport;
  PartitionOptions partition;  ///< `parts` is the number of ranks.
  NodeOrder node_order = NodeOrder::automatic;
  CheckpointOptions checkpoint;

  /// Weights to begin with, instead of random ones: what Model::load reads. The optimizer starts
  /// anew. With Normalization::standard, statistics that the file holds are used, so that the
  /// weights see features as they were when they were trained; otherwise those of this data set.
  std::filesystem::path init_from;
  bool keep_logits = false;      ///< Return the logits at the best epoch.
  bool keep_embeddings = false;  ///< Return the embeddings at the best epoch (Outputs).

  int epochs = 200;
  int eval_every = 1;  ///< Epochs between evaluations; 0: none, not even of the last epoch.
  /// Epochs between comparisons of a step with the exact one (Verification); 0: none.
  int verify_every = 0;
  /// Goes back to good weights, and on without lag and with twice the bits, if the training loss
  /// has risen and is no better than that of a model that ignores its inputs (docs/guard.md). CPUs
  /// only.
  bool guard = false;
  int patience = 0;  ///< Stop after this many evaluations without a better score; 0: never.
  std::uint64_t seed = 1;
  Metric metric = Metric::automatic;
  Normalization normalize = Normalization::none;
  bool inductive = false;     ///< Train on the graph induced by the training nodes.
  bool reproducible = false;  ///< Sums in fp64 everywhere (docs/architecture.md).
  bool tf32 = false;  ///< Rounds factors of training's matrix products to TF32; CUDA devices only.

  SplitChoice split;  ///< The nodes to train, validate and test on; the first given split if unset.

  /// Most bytes of a rank's fp32 halo rows while evaluating.
  std::int64_t eval_chunk_bytes = std::int64_t{64} << 20;
  /// Most bytes that training may need; 0: as many as are available.
  std::int64_t memory_limit_bytes = 0;
};

/// Checks every value and combination that can be checked without data. Starts CUDA if ranks
/// compute on its devices, to check that there is one. Throws Error(usage) with one sentence that
/// names the option as the command spells it.
void validate(const TrainOptions& options);

}  // namespace heliograph
