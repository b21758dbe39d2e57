#include "train/options/json.hpp"

#include <limits>
#include <utility>
#include <vector>

#include "comm/nccl/transport.hpp"
#include "core/kernels.hpp"
#include "train/options/values.hpp"

namespace heliograph {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

using Fields = FieldTable<TrainOptions>;

/// A switch that turns a member off: --no-x stores false.
template <class Access>
void add_off_switch(Fields& fields, const std::string& name, std::string help, Access access) {
  fields.add(
      name, FieldKind::toggle, "", std::move(help),
      [name, access](TrainOptions& options, const std::string& text) {
        access(options) = !parse_toggle(name, text);
      },
      [access](const TrainOptions& options) { return nlohmann::json(!access(options)); });
}

/// Bytes in the options, mebibytes in the flag.
void add_mebibytes(Fields& fields, const std::string& name, std::string help, std::int64_t lowest,
                   std::int64_t TrainOptions::*bytes) {
  fields.add(
      name, FieldKind::integer, "N", std::move(help),
      [name, lowest, bytes](TrainOptions& options, const std::string& text) {
        constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max() / mebibyte;
        options.*bytes = parse_integer(name, text, lowest, highest) * mebibyte;
      },
      [bytes](const TrainOptions& options) { return nlohmann::json(options.*bytes / mebibyte); });
}

void add_model(Fields& fields) {
  fields.group("Model");
  fields
      .add("model", "Graph convolution (GCN) or GraphSAGE with the mean of the neighbours.",
           HELIOGRAPH_MEMBER(model.kind))
      .set = [](TrainOptions& options, const std::string& text) {
    options.model.kind = parse_model(text);
  };
  fields.add("layers", "N", "Number of layers.", HELIOGRAPH_MEMBER(model.layers));
  fields.add("hidden", "N", "Width of the hidden layers.", HELIOGRAPH_MEMBER(model.hidden));
  fields.add("dropout", "P",
             "Probability of zeroing a value of a layer's input, from 0 to below 1.",
             HELIOGRAPH_MEMBER(model.dropout));
  fields.add("norm", "Normalisation between layers: LayerNorm or none.",
             HELIOGRAPH_MEMBER(model.norm));
  fields.add("residual", "Add a hidden layer's input to its output where the widths agree.",
             HELIOGRAPH_MEMBER(model.residual));
  add_off_switch(fields, "no-precompute",
                 "Aggregate the input features in every epoch instead of once before "
                 "the first (with it, dropout also falls before that aggregation).",
                 HELIOGRAPH_MEMBER(model.precompute));
  add_off_switch(fields, "no-transform-first",
                 "Aggregate before multiplying by the weights even where the output "
                 "is narrower than the input.",
                 HELIOGRAPH_MEMBER(model.transform_first));
  fields.add("aggregate-storage",
             "What training stores of the rows that a rank's own nodes give their neighbours: bf16 "
             "halves the bytes that aggregation reads, for graphs of many edges a node that the "
             "caches do not hold. Sums and evaluation are fp32, rows between ranks have --bits.",
             HELIOGRAPH_MEMBER(model.aggregate_storage));
}

void add_training(Fields& fields) {
  fields.group("Training");
  fields.add("epochs", "N", "Passes over the whole graph; one step each.",
             HELIOGRAPH_MEMBER(epochs));
  fields.add("lr", "X", "Learning rate of Adam.", HELIOGRAPH_MEMBER(optimizer.lr));
  fields.add("weight-decay", "X", "L2 penalty, added to the gradient of weight matrices.",
             HELIOGRAPH_MEMBER(optimizer.weight_decay));
  fields.add("clip-norm", "X", "Largest global gradient norm; 0 does not clip.",
             HELIOGRAPH_MEMBER(optimizer.clip_norm));
  fields.add("schedule", "How the learning rate changes over the epochs.",
             HELIOGRAPH_MEMBER(optimizer.schedule));
  fields.add("step-size", "N", "Epochs between drops of --schedule step.",
             HELIOGRAPH_MEMBER(optimizer.step_size));
  fields.add("step-gamma", "X", "Factor of a drop of --schedule step.",
             HELIOGRAPH_MEMBER(optimizer.step_gamma));
  fields.add("patience", "N",
             "Stop after N evaluations without a better validation score; 0 never stops early.",
             HELIOGRAPH_MEMBER(patience));
  fields.add("seed", "N", "Seed of initialisation, dropout and rounding.", HELIOGRAPH_MEMBER(seed));
  fields.add("reproducible",
             "Accumulate in fp64, so that results do not depend on ranks or threads (slower).",
             HELIOGRAPH_MEMBER(reproducible));
  fields.add("tf32",
             "With --device cuda: matrix products of training round their factors to TF32 (10 "
             "bits behind the leading one), for tensor cores. Sums and evaluation are fp32.",
             HELIOGRAPH_MEMBER(tf32));
}

void add_evaluation(Fields& fields) {
  fields.group("Evaluation");
  fields.add("metric",
             "Score: accuracy, micro-averaged F1 or area under the ROC curve (two classes). "
             "auto takes f1 for multi-label, auc for two classes and accuracy otherwise.",
             HELIOGRAPH_MEMBER(metric));
  fields.add("eval-every", "N", "Epochs between exact evaluations of the whole graph.",
             HELIOGRAPH_MEMBER(eval_every));
  add_mebibytes(fields, "eval-chunk-mib",
                "Memory for a rank's fp32 halo rows while evaluating, MiB.", 1,
                &TrainOptions::eval_chunk_bytes);
}

void add_data(Fields& fields) {
  fields.group("Data");
  fields.add("split", FieldKind::text, "N|random:T/V/E",
             "Which split of the data set to use, from 0; or a random one with these "
             "shares of the labelled nodes, per cent, e.g. random:60/20/20.",
             set_split, [](const TrainOptions& options) {
               return options.random_split ? nlohmann::json(split_text(options))
                                           : nlohmann::json(options.split);
             });
  fields.add("split-seed", "N", "Seed of a random split.", HELIOGRAPH_MEMBER(split_seed));
  fields.add("stratified", "A random split keeps the shares within each class.",
             HELIOGRAPH_MEMBER(stratified));
  fields.add("normalize",
             "Features as they are, each row divided by its sum, or each column "
             "standardised with the statistics of the training nodes.",
             HELIOGRAPH_MEMBER(normalize));
  fields.add("inductive",
             "Train on the graph induced by the training nodes; evaluate on the whole graph.",
             HELIOGRAPH_MEMBER(inductive));
}

void add_ranks(Fields& fields) {
  fields.group("Ranks and partition");
  fields.add("parts", "K", "Ranks; each owns one part of the graph.",
             HELIOGRAPH_MEMBER(partition.parts));
  fields.add(
      "partitioner", FieldKind::text, "metis|contiguous|random|file:PATH",
      "How nodes are given to ranks; file:PATH reads one owner a line.",
      [](TrainOptions& options, const std::string& text) {
        set_partitioner(options.partition, text);
      },
      [](const TrainOptions& options) {
        return nlohmann::json(partitioner_text(options.partition));
      });
  fields.add("objective", "What METIS minimises: cut edges, or rows that ranks exchange.",
             HELIOGRAPH_MEMBER(partition.objective));
  fields.add("partition-seed", "N", "Seed of the partitioner.", HELIOGRAPH_MEMBER(partition.seed));
  fields.add(
      "node-order",
      "How a rank numbers its nodes, which changes speed only: cluster puts nodes that share "
      "neighbours side by side; auto takes it where the graph is large enough to gain.",
      HELIOGRAPH_MEMBER(node_order));
  add_mebibytes(fields, "memory-limit-mib",
                "Refuse a run whose training needs more, MiB; 0 takes what the "
                "machine has available.",
                0, &TrainOptions::memory_limit_bytes);
}

void add_checkpoints(Fields& fields) {
  fields.group("Checkpoints");
  fields.add("checkpoint-every", "N",
             "With --out: epochs between checkpoints, and one at the end; 0 saves at "
             "SIGTERM, SIGINT and SIGUSR1 only.",
             HELIOGRAPH_MEMBER(checkpoint.every));
  fields.add("on-save-failure",
             "When a checkpoint cannot be written: warn and continue, or stop with exit code 4.",
             HELIOGRAPH_MEMBER(checkpoint.on_failure));
}

void add_exchange(Fields& fields) {
  fields.group("Exchange");
  fields.add("bits", FieldKind::integer, "32|16|8|4|2|1",
             "Bits a value on the wire, both ways. 32 is exact, 16 is bfloat16.",
             [](TrainOptions& options, const std::string& text) {
               options.exchange.bits_forward = options.exchange.bits_backward =
                   parse_bits("bits", text);
             },
             {});
  fields.add("bits-forward", "N", "Bits of features; overrides --bits.",
             HELIOGRAPH_MEMBER(exchange.bits_forward));
  fields.add("bits-backward", "N", "Bits of gradients; overrides --bits.",
             HELIOGRAPH_MEMBER(exchange.bits_backward));
  fields.add("staleness", "S",
             "Largest age, in epochs, of the halo values that an epoch uses; 0 is synchronous.",
             HELIOGRAPH_MEMBER(exchange.staleness));
  fields.add("sync-every", "N", "With --staleness: every N-th epoch is synchronous; 0 is never.",
             HELIOGRAPH_MEMBER(exchange.sync_every));
  fields.add("warmup-epochs", "N", "With --staleness: the first N epochs are synchronous.",
             HELIOGRAPH_MEMBER(exchange.warmup_epochs));
}

void add_transport(Fields& fields) {
  fields.group("Transport");
  fields.add("transport", nccl_built() ? "auto|threads|mpi|tcp|nccl" : "auto|threads|mpi|tcp",
             "Ranks are threads of this process, or processes that mpirun, srun or "
             "torchrun started (auto: where one did).",
             HELIOGRAPH_MEMBER(transport.kind));
  fields.add("device", cuda_built() ? "cpu|cuda" : "cpu", "Where ranks compute.",
             HELIOGRAPH_MEMBER(transport.device));
  fields.add("cuda-graphs",
             "With --device cuda: whether the kernels of an epoch are asked for by CUDA "
             "graphs, in a few launches instead of dozens; auto: where a rank's part is "
             "so small that launching takes as long as computing.",
             HELIOGRAPH_MEMBER(transport.cuda_graphs));
  fields.add("threads-per-rank", "N",
             "Compute threads of each rank; 0 shares the machine's cores among the ranks.",
             HELIOGRAPH_MEMBER(transport.threads_per_rank));
  fields.add("pin",
             "Whether ranks that are threads keep to their share of the CPUs; auto: where "
             "there are more ranks than CPUs.",
             HELIOGRAPH_MEMBER(transport.pin));
  fields.add(
      "link-gbps", "X",
      "Shape each directed link to X gigabits a second, to study a slow network; 0 does not.",
      HELIOGRAPH_MEMBER(transport.link_gbps));
  fields.add("link-latency-us", "X", "Delay of each message, microseconds.",
             HELIOGRAPH_MEMBER(transport.link_latency_us));
  fields.add("cuda-aware-mpi",
             "MPI: whether halo messages of CUDA devices are handed to it where they lie; auto: "
             "where its library says that it is CUDA-aware. Otherwise they are staged on the host.",
             HELIOGRAPH_MEMBER(transport.cuda_aware_mpi));
  fields.add("nccl-register",
             "NCCL: register the buffers of halo messages, so that it may move them without "
             "a copy of its own; whether that is faster depends on devices and links.",
             HELIOGRAPH_MEMBER(transport.nccl_register));
  fields.add("timeout", "X", "Longest wait for a rank that makes no progress, seconds.",
             HELIOGRAPH_MEMBER(transport.timeout_seconds));
  fields.add(
      "silence-loading", "X",
      "Processes: seconds without a sign of life after which a rank that loads counts as lost.",
      HELIOGRAPH_MEMBER(transport.silence_loading));
  fields.add("silence-training", "X", "Processes: likewise of a rank that trains.",
             HELIOGRAPH_MEMBER(transport.silence_training));
  fields.add("silence-saving", "X", "Processes: likewise of a rank that writes its results.",
             HELIOGRAPH_MEMBER(transport.silence_saving));
}

std::vector<OptionField<TrainOptions>> build_fields() {
  Fields fields;
  add_data(fields);
  add_model(fields);
  add_training(fields);
  add_evaluation(fields);
  add_ranks(fields);
  add_exchange(fields);
  add_transport(fields);
  add_checkpoints(fields);
  return fields.take();
}

}  // namespace

std::span<const OptionField<TrainOptions>> train_option_fields() {
  static const auto fields = build_fields();
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
