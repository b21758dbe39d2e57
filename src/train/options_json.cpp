#include "train/options_json.hpp"

#include <limits>
#include <utility>
#include <vector>

#include "comm/nccl_transport.hpp"
#include "core/kernels.hpp"
#include "train/option_values.hpp"

namespace heliograph {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

using Field = OptionField<TrainOptions>;

#define HELIOGRAPH_MEMBER(path) \
  [](auto& options) -> auto& { return options.path; }

/// A switch that turns a member off: --no-x stores false.
template <class Access>
Field off_switch(std::string name, std::string group, std::string help, Access access) {
  Field field{name, std::move(group), FieldKind::toggle, "", std::move(help), {}, {}};
  field.set = [name, access](TrainOptions& options, const std::string& text) {
    access(options) = !parse_toggle(name, text);
  };
  field.get = [access](const TrainOptions& options) { return nlohmann::json(!access(options)); };
  return field;
}

/// Bytes in the options, mebibytes in the flag.
Field mebibytes(std::string name, std::string group, std::string help, std::int64_t lowest,
                std::int64_t TrainOptions::*bytes) {
  Field field{name, std::move(group), FieldKind::integer, "N", std::move(help), {}, {}};
  field.set = [name, lowest, bytes](TrainOptions& options, const std::string& text) {
    constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max() / mebibyte;
    options.*bytes = parse_integer(name, text, lowest, highest) * mebibyte;
  };
  field.get = [bytes](const TrainOptions& options) {
    return nlohmann::json(options.*bytes / mebibyte);
  };
  return field;
}

void add_model(std::vector<Field>& fields) {
  const std::string group = "Model";
  Field model = make_choice<TrainOptions>(
      "model", group, "Graph convolution (GCN) or GraphSAGE with the mean of the neighbours.",
      model_names(), HELIOGRAPH_MEMBER(model.kind));
  model.set = [](TrainOptions& options, const std::string& text) {
    options.model.kind = parse_model(text);
  };
  fields.push_back(std::move(model));
  fields.push_back(make_field<TrainOptions>("layers", group, "N", "Number of layers.",
                                            HELIOGRAPH_MEMBER(model.layers)));
  fields.push_back(make_field<TrainOptions>("hidden", group, "N", "Width of the hidden layers.",
                                            HELIOGRAPH_MEMBER(model.hidden)));
  fields.push_back(make_field<TrainOptions>(
      "dropout", group, "P",
      "Probability of zeroing a value of a layer's input, from 0 to below 1.",
      HELIOGRAPH_MEMBER(model.dropout)));
  fields.push_back(make_choice<TrainOptions>("norm", group,
                                             "Normalisation between layers: LayerNorm or none.",
                                             norm_names(), HELIOGRAPH_MEMBER(model.norm)));
  fields.push_back(make_field<TrainOptions>(
      "residual", group, "", "Add a hidden layer's input to its output where the widths agree.",
      HELIOGRAPH_MEMBER(model.residual)));
  fields.push_back(off_switch("no-precompute", group,
                              "Aggregate the input features in every epoch instead of once before "
                              "the first (with it, dropout also falls before that aggregation).",
                              HELIOGRAPH_MEMBER(model.precompute)));
  fields.push_back(off_switch("no-transform-first", group,
                              "Aggregate before multiplying by the weights even where the output "
                              "is narrower than the input.",
                              HELIOGRAPH_MEMBER(model.transform_first)));
  fields.push_back(make_choice<TrainOptions>(
      "aggregate-storage", group,
      "What training stores of the rows that a rank's own nodes give their neighbours: bf16 halves "
      "the bytes that aggregation reads, for graphs of many edges a node that the caches do not "
      "hold. Sums and evaluation are fp32, rows between ranks have --bits.",
      storage_names(), HELIOGRAPH_MEMBER(model.aggregate_storage)));
}

void add_training(std::vector<Field>& fields) {
  const std::string group = "Training";
  fields.push_back(make_field<TrainOptions>("epochs", group, "N",
                                            "Passes over the whole graph; one step each.",
                                            HELIOGRAPH_MEMBER(epochs)));
  fields.push_back(make_field<TrainOptions>("lr", group, "X", "Learning rate of Adam.",
                                            HELIOGRAPH_MEMBER(optimizer.lr)));
  fields.push_back(make_field<TrainOptions>("weight-decay", group, "X",
                                            "L2 penalty, added to the gradient of weight matrices.",
                                            HELIOGRAPH_MEMBER(optimizer.weight_decay)));
  fields.push_back(make_field<TrainOptions>("clip-norm", group, "X",
                                            "Largest global gradient norm; 0 does not clip.",
                                            HELIOGRAPH_MEMBER(optimizer.clip_norm)));
  fields.push_back(
      make_choice<TrainOptions>("schedule", group, "How the learning rate changes over the epochs.",
                                schedule_names(), HELIOGRAPH_MEMBER(optimizer.schedule)));
  fields.push_back(make_field<TrainOptions>("step-size", group, "N",
                                            "Epochs between drops of --schedule step.",
                                            HELIOGRAPH_MEMBER(optimizer.step_size)));
  fields.push_back(make_field<TrainOptions>("step-gamma", group, "X",
                                            "Factor of a drop of --schedule step.",
                                            HELIOGRAPH_MEMBER(optimizer.step_gamma)));
  fields.push_back(make_field<TrainOptions>(
      "patience", group, "N",
      "Stop after N evaluations without a better validation score; 0 never stops early.",
      HELIOGRAPH_MEMBER(patience)));
  fields.push_back(make_field<TrainOptions>("seed", group, "N",
                                            "Seed of initialisation, dropout and rounding.",
                                            HELIOGRAPH_MEMBER(seed)));
  fields.push_back(make_field<TrainOptions>(
      "reproducible", group, "",
      "Accumulate in fp64, so that results do not depend on ranks or threads (slower).",
      HELIOGRAPH_MEMBER(reproducible)));
  fields.push_back(make_field<TrainOptions>(
      "tf32", group, "",
      "With --device cuda: matrix products of training round their factors to TF32 (10 bits behind "
      "the leading one), for tensor cores. Sums and evaluation are fp32.",
      HELIOGRAPH_MEMBER(tf32)));
}

void add_evaluation(std::vector<Field>& fields) {
  const std::string group = "Evaluation";
  fields.push_back(make_choice<TrainOptions>(
      "metric", group,
      "Score: accuracy, micro-averaged F1 or area under the ROC curve (two classes). auto takes f1 "
      "for multi-label, auc for two classes and accuracy otherwise.",
      metric_names(), HELIOGRAPH_MEMBER(metric)));
  fields.push_back(make_field<TrainOptions>("eval-every", group, "N",
                                            "Epochs between exact evaluations of the whole graph.",
                                            HELIOGRAPH_MEMBER(eval_every)));
  fields.push_back(mebibytes("eval-chunk-mib", group,
                             "Memory for a rank's fp32 halo rows while evaluating, MiB.", 1,
                             &TrainOptions::eval_chunk_bytes));
}

void add_data(std::vector<Field>& fields) {
  const std::string group = "Data";
  Field split{"split",
              group,
              FieldKind::text,
              "N|random:T/V/E",
              "Which split of the data set to use, from 0; or a random one with these shares of "
              "the labelled nodes, per cent, e.g. random:60/20/20.",
              {},
              {}};
  split.set = set_split;
  split.get = [](const TrainOptions& options) {
    return options.random_split ? nlohmann::json(split_text(options))
                                : nlohmann::json(options.split);
  };
  fields.push_back(std::move(split));
  fields.push_back(make_field<TrainOptions>("split-seed", group, "N", "Seed of a random split.",
                                            HELIOGRAPH_MEMBER(split_seed)));
  fields.push_back(make_field<TrainOptions>("stratified", group, "",
                                            "A random split keeps the shares within each class.",
                                            HELIOGRAPH_MEMBER(stratified)));
  fields.push_back(make_choice<TrainOptions>(
      "normalize", group,
      "Features as they are, each row divided by its sum, or each column standardised with the "
      "statistics of the training nodes.",
      normalization_names(), HELIOGRAPH_MEMBER(normalize)));
  fields.push_back(make_field<TrainOptions>(
      "inductive", group, "",
      "Train on the graph induced by the training nodes; evaluate on the whole graph.",
      HELIOGRAPH_MEMBER(inductive)));
}

void add_ranks(std::vector<Field>& fields) {
  const std::string group = "Ranks and partition";
  fields.push_back(make_field<TrainOptions>("parts", group, "K",
                                            "Ranks; each owns one part of the graph.",
                                            HELIOGRAPH_MEMBER(partition.parts)));
  Field partitioner{"partitioner",
                    group,
                    FieldKind::text,
                    "metis|contiguous|random|file:PATH",
                    "How nodes are given to ranks; file:PATH reads one owner a line.",
                    {},
                    {}};
  partitioner.set = [](TrainOptions& options, const std::string& text) {
    set_partitioner(options.partition, text);
  };
  partitioner.get = [](const TrainOptions& options) {
    return nlohmann::json(partitioner_text(options.partition));
  };
  fields.push_back(std::move(partitioner));
  fields.push_back(make_choice<TrainOptions>(
      "objective", group, "What METIS minimises: cut edges, or rows that ranks exchange.",
      objective_names(), HELIOGRAPH_MEMBER(partition.objective)));
  fields.push_back(make_field<TrainOptions>(
      "partition-seed", group, "N", "Seed of the partitioner.", HELIOGRAPH_MEMBER(partition.seed)));
  fields.push_back(make_choice<TrainOptions>(
      "node-order", group,
      "How a rank numbers its nodes, which changes speed only: cluster puts nodes that share "
      "neighbours side by side; auto takes it where the graph is large enough to gain.",
      order_names(), HELIOGRAPH_MEMBER(node_order)));
  fields.push_back(mebibytes("memory-limit-mib", group,
                             "Refuse a run whose training needs more, MiB; 0 takes what the "
                             "machine has available.",
                             0, &TrainOptions::memory_limit_bytes));
}

void add_checkpoints(std::vector<Field>& fields) {
  const std::string group = "Checkpoints";
  fields.push_back(make_field<TrainOptions>(
      "checkpoint-every", group, "N",
      "With --out: epochs between checkpoints, and one at the end; 0 saves at SIGTERM, SIGINT and "
      "SIGUSR1 only.",
      HELIOGRAPH_MEMBER(checkpoint.every)));
  fields.push_back(make_choice<TrainOptions>(
      "on-save-failure", group,
      "When a checkpoint cannot be written: warn and continue, or stop with exit code 4.",
      save_failure_names(), HELIOGRAPH_MEMBER(checkpoint.on_failure)));
}

void add_exchange(std::vector<Field>& fields) {
  const std::string group = "Exchange";
  Field bits{"bits",
             group,
             FieldKind::integer,
             "32|16|8|4|2|1",
             "Bits a value on the wire, both ways. 32 is exact, 16 is bfloat16.",
             {},
             {}};
  bits.set = [](TrainOptions& options, const std::string& text) {
    options.exchange.bits_forward = options.exchange.bits_backward = parse_bits("bits", text);
  };
  fields.push_back(std::move(bits));
  fields.push_back(make_field<TrainOptions>("bits-forward", group, "N",
                                            "Bits of features; overrides --bits.",
                                            HELIOGRAPH_MEMBER(exchange.bits_forward)));
  fields.push_back(make_field<TrainOptions>("bits-backward", group, "N",
                                            "Bits of gradients; overrides --bits.",
                                            HELIOGRAPH_MEMBER(exchange.bits_backward)));
  fields.push_back(make_field<TrainOptions>(
      "staleness", group, "S",
      "Largest age, in epochs, of the halo values that an epoch uses; 0 is synchronous.",
      HELIOGRAPH_MEMBER(exchange.staleness)));
  fields.push_back(make_field<TrainOptions>(
      "sync-every", group, "N", "With --staleness: every N-th epoch is synchronous; 0 is never.",
      HELIOGRAPH_MEMBER(exchange.sync_every)));
  fields.push_back(make_field<TrainOptions>("warmup-epochs", group, "N",
                                            "With --staleness: the first N epochs are synchronous.",
                                            HELIOGRAPH_MEMBER(exchange.warmup_epochs)));
}

void add_transport(std::vector<Field>& fields) {
  const std::string group = "Transport";
  Field transport = make_choice<TrainOptions>(
      "transport", group,
      "Ranks are threads of this process, or processes that mpirun, srun or "
      "torchrun started (auto: where one did).",
      transport_names(), HELIOGRAPH_MEMBER(transport.kind));
  transport.placeholder = nccl_built() ? "auto|threads|mpi|tcp|nccl" : "auto|threads|mpi|tcp";
  fields.push_back(std::move(transport));
  Field device = make_choice<TrainOptions>("device", group, "Where ranks compute.", device_names(),
                                           HELIOGRAPH_MEMBER(transport.device));
  device.placeholder = cuda_built() ? "cpu|cuda" : "cpu";
  fields.push_back(std::move(device));
  fields.push_back(make_choice<TrainOptions>(
      "cuda-graphs", group,
      "With --device cuda: whether the kernels of an epoch are asked for by CUDA graphs, in a few "
      "launches instead of dozens; auto: where a rank's part is so small that launching takes as "
      "long as computing.",
      cuda_graphs_names(), HELIOGRAPH_MEMBER(transport.cuda_graphs)));
  fields.push_back(make_field<TrainOptions>(
      "threads-per-rank", group, "N",
      "Compute threads of each rank; 0 shares the machine's cores among the ranks.",
      HELIOGRAPH_MEMBER(transport.threads_per_rank)));
  fields.push_back(make_choice<TrainOptions>(
      "pin", group,
      "Whether ranks that are threads keep to their share of the CPUs; auto: where there are more "
      "ranks than CPUs.",
      pinning_names(), HELIOGRAPH_MEMBER(transport.pin)));
  fields.push_back(make_field<TrainOptions>(
      "link-gbps", group, "X",
      "Shape each directed link to X gigabits a second, to study a slow network; 0 does not.",
      HELIOGRAPH_MEMBER(transport.link_gbps)));
  fields.push_back(make_field<TrainOptions>("link-latency-us", group, "X",
                                            "Delay of each message, microseconds.",
                                            HELIOGRAPH_MEMBER(transport.link_latency_us)));
  fields.push_back(make_choice<TrainOptions>(
      "cuda-aware-mpi", group,
      "MPI: whether halo messages of CUDA devices are handed to it where they lie; auto: where its "
      "library says that it is CUDA-aware. Otherwise they are staged on the host.",
      cuda_aware_names(), HELIOGRAPH_MEMBER(transport.cuda_aware_mpi)));
  fields.push_back(make_field<TrainOptions>(
      "nccl-register", group, "",
      "NCCL: register the buffers of halo messages, so that it may move them without a copy of its "
      "own; whether that is faster depends on devices and links.",
      HELIOGRAPH_MEMBER(transport.nccl_register)));
  fields.push_back(make_field<TrainOptions>(
      "timeout", group, "X", "Longest wait for a rank that makes no progress, seconds.",
      HELIOGRAPH_MEMBER(transport.timeout_seconds)));
  fields.push_back(make_field<TrainOptions>(
      "silence-loading", group, "X",
      "Processes: seconds without a sign of life after which a rank that loads counts as lost.",
      HELIOGRAPH_MEMBER(transport.silence_loading)));
  fields.push_back(make_field<TrainOptions>("silence-training", group, "X",
                                            "Processes: likewise of a rank that trains.",
                                            HELIOGRAPH_MEMBER(transport.silence_training)));
  fields.push_back(make_field<TrainOptions>(
      "silence-saving", group, "X", "Processes: likewise of a rank that writes its results.",
      HELIOGRAPH_MEMBER(transport.silence_saving)));
}

#undef HELIOGRAPH_MEMBER

std::vector<Field> build_fields() {
  std::vector<Field> fields;
  add_data(fields);
  add_model(fields);
  add_training(fields);
  add_evaluation(fields);
  add_ranks(fields);
  add_exchange(fields);
  add_transport(fields);
  add_checkpoints(fields);
  return fields;
}

}  // namespace

std::span<const OptionField<TrainOptions>> train_option_fields() {
  static const std::vector<Field> fields = build_fields();
  return fields;
}

nlohmann::ordered_json options_to_json(const TrainOptions& options) {
  return fields_to_json(train_option_fields(), options);
}

void options_from_json(const nlohmann::json& object, const std::string& origin,
                       TrainOptions& options) {
  apply_json(train_option_fields(), object, origin, options);
}

}  // namespace heliograph
