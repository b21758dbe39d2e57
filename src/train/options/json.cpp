#include "train/options/json.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "comm/nccl/transport.hpp"
#include "core/kernels.hpp"
#include "core/throw_error.hpp"
#include "graph/io/json.hpp"
#include "graph/split.hpp"
#include "heliograph/error.hpp"
#include "staleness/bit_budget.hpp"
#include "train/options/fields.hpp"
#include "train/options/model_fields.hpp"
#include "train/options/values.hpp"

namespace heliograph {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

using TrainFields = FieldTable<TrainOptions>;

/// Adds a flag in mebibytes for a member in bytes.
void add_mebibytes(TrainFields& fields, const std::string& name, std::string help,
                   std::int64_t lowest, std::int64_t TrainOptions::*bytes) {
  fields.add(
      name, FieldKind::integer, "N", std::move(help),
      [name, lowest, bytes](TrainOptions& options, const std::string& text) {
        constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max() / kMebibyte;
        options.*bytes = parse_integer(name, text, lowest, highest) * kMebibyte;
      },
      [bytes](const TrainOptions& options) { return nlohmann::json(options.*bytes / kMebibyte); });
}

void add_training(TrainFields& fields) {
  fields.group("Training");
  fields.add("epochs", "N",
             "Epochs to train. An epoch is one pass over the whole graph and one optimizer step.",
             HELIOGRAPH_MEMBER(epochs));
  fields.add(
      "optimizer",
      "Adam with an L2 penalty (adam), or with a decay of weights that does not pass through "
      "the gradient (adamw).",
      HELIOGRAPH_MEMBER(optimizer.kind));
  fields.add("lr", "X", "Learning rate.", HELIOGRAPH_MEMBER(optimizer.lr));
  fields.add("lr-warmup", "N",
             "Raise the learning rate over the first N epochs, from --lr/N to --lr in equal steps; "
             "--schedule begins after them. Synchronous first epochs are --warmup-epochs.",
             HELIOGRAPH_MEMBER(optimizer.lr_warmup));
  fields.add("weight-decay", "X",
             "Decay of weight matrices: adam adds X times the weight to its gradient, adamw takes "
             "X times the learning rate times the weight from the weight.",
             HELIOGRAPH_MEMBER(optimizer.weight_decay));
  fields.add("clip-norm", "X",
             "Scale gradients down to this global norm if theirs is larger; 0 turns clipping off.",
             HELIOGRAPH_MEMBER(optimizer.clip_norm));
  fields.add(
      "schedule",
      "How the learning rate changes over epochs: not at all, as half a cosine from --lr to 0 at "
      "--epochs, or by a factor of --step-gamma every --step-size epochs.",
      HELIOGRAPH_MEMBER(optimizer.schedule));
  fields.add("step-size", "N",
             "With --schedule step: epochs between two drops of the learning rate.",
             HELIOGRAPH_MEMBER(optimizer.step_size));
  fields.add("step-gamma", "X", "With --schedule step: factor of each drop.",
             HELIOGRAPH_MEMBER(optimizer.step_gamma));
  fields.add("label-smoothing", "X",
             "With one class a node: train towards 1 - X for the node's class plus X / C for each "
             "of the C classes; at least 0, below 1.",
             HELIOGRAPH_MEMBER(loss.label_smoothing));
  fields.add("class-weights",
             "With one class a node: weigh training nodes equally (none), or by n / (C n_c), so "
             "that each of the C classes counts as much whatever its number n_c of the n training "
             "nodes (balanced).",
             HELIOGRAPH_MEMBER(loss.class_weights));
  fields.add(
      "patience", "N",
      "Stop after N evaluations in a row without a better validation score; 0 never stops early.",
      HELIOGRAPH_MEMBER(patience));
  fields.add(
      "init-from", "PATH",
      "Begin with the weights of an earlier run instead of random ones: of its run directory (the "
      "best epoch's), of a checkpoint or of a .safetensors file. The optimizer starts anew. "
      "--normalize must be that of the earlier run; with standard, features are normalised by the "
      "statistics of that run, so that the weights see what they were trained on.",
      HELIOGRAPH_MEMBER(init_from));
  fields.add("seed", "N", "Random seed of initial weights, dropout and rounding.",
             HELIOGRAPH_MEMBER(seed));
  fields.add(
      "reproducible",
      "Sum in fp64, so that results do not depend on the number of ranks or threads; slower.",
      HELIOGRAPH_MEMBER(reproducible));
  fields.add(
      "tf32",
      "With --device cuda: round the factors of training's matrix products to TF32, which has "
      "a mantissa of 10 bits, to use tensor cores. Sums and evaluation stay fp32.",
      HELIOGRAPH_MEMBER(tf32));
}

void add_evaluation(TrainFields& fields) {
  fields.group("Evaluation");
  fields.add(
      "metric",
      "Score of the predictions: accuracy, F1 averaged over nodes and classes together (f1) or "
      "over classes (macro-f1); for two classes area under the ROC curve (auc) or average "
      "precision "
      "(ap); for regression the coefficient of determination (r2) or the root of the mean squared "
      "error (rmse). auto is f1 for multi-label, r2 for regression, auc for two classes, and "
      "accuracy otherwise.",
      HELIOGRAPH_MEMBER(metric));
  fields.add("eval-every", "N",
             "Epochs between evaluations, which are exact and cover the whole graph; 0 never "
             "evaluates, so the run has no scores and no predictions, and its weights are the "
             "last epoch's.",
             HELIOGRAPH_MEMBER(eval_every));
  fields.add("verify", "N",
             "In every N-th epoch, also make the step with exact halo rows, and with each exchange "
             "as trained while the others are exact: says which exchange moves the gradients by "
             "how much, by its bits and by its lag; 0 never does. Changes no result.",
             HELIOGRAPH_MEMBER(verify_every));
  fields.add("guard",
             "Go back to the last good weights, and on without lag and with twice the bits (up to "
             "8), if the mean training loss of five epochs is no better than that of a model which "
             "ignores features and graph and 10 % above its lowest. Other runs keep their numbers. "
             "Needs --device cpu.",
             HELIOGRAPH_MEMBER(guard));
  fields.add("save-logits",
             "Write the logits of every node at the best epoch to logits.npy in --out.",
             HELIOGRAPH_MEMBER(keep_logits));
  fields.add(
      "save-embeddings",
      "Write the input of the output map, or of the last layer if there is none, at the best "
      "epoch to embeddings.npy in --out: nodes x --hidden, with --jk concat nodes x (--layers "
      "x --hidden).",
      HELIOGRAPH_MEMBER(keep_embeddings));
  add_mebibytes(fields, "eval-chunk-mib",
                "Most memory for a rank's fp32 halo rows while evaluating, MiB.", 1,
                &TrainOptions::eval_chunk_bytes);
}

void add_data(TrainFields& fields) {
  fields.group("Data");
  fields.add(
      "split", FieldKind::text, "N|random:T/V/E|per-class:N/V/T",
      "The nodes to train, validate and test on: split N of the data set, counted from 0; random "
      "shares of the labelled nodes, in per cent (random:60/20/20) or as fractions that sum to 1 "
      "(random:0.6/0.2/0.2); or numbers of nodes: per "
      "class to train on, and in all to validate and test on, such as per-class:20/500/1000.",
      [](TrainOptions& options, const std::string& text) { set_split(options.split, text); },
      [](const TrainOptions& options) {
        const auto* given = std::get_if<GivenSplit>(&options.split);
        return given != nullptr ? nlohmann::json(given->index)
                                : nlohmann::json(split_text(options.split));
      });
  fields.add(
      "split-seed", FieldKind::integer, "N",
      "With --split random or per-class: random seed of the split.",
      [](TrainOptions& options, const std::string& text) {
        set_split_seed(options.split, parse_seed("split-seed", text));
      },
      [](const TrainOptions& options) {
        const std::uint64_t* seed = split_seed(options.split);
        return seed != nullptr ? nlohmann::json(*seed) : nlohmann::json();
      });
  fields.add(
      "stratified", FieldKind::toggle, "",
      "With --split random: keep the shares within each class.",
      [](TrainOptions& options, const std::string& text) {
        const bool stratified = parse_toggle("stratified", text);
        if (auto* random = std::get_if<RandomSplit>(&options.split)) {
          random->stratified = stratified;
        } else if (stratified) {
          throw_error(ErrorCode::usage, "--stratified needs --split random:T/V/E");
        }
      },
      [](const TrainOptions& options) {
        const auto* random = std::get_if<RandomSplit>(&options.split);
        return random != nullptr ? nlohmann::json(random->stratified) : nlohmann::json();
      });
  fields.add(
      "normalize",
      "Change to the features: none; row divides each row by the sum of its absolute values; "
      "standard gives each column mean 0 and standard deviation 1 over all nodes, or over "
      "the training nodes with --inductive.",
      HELIOGRAPH_MEMBER(normalize));
  fields.add(
      "inductive",
      "Train on the training nodes and the edges between them only; evaluate on the whole graph.",
      HELIOGRAPH_MEMBER(inductive));
}

void add_ranks(TrainFields& fields) {
  fields.group("Ranks and partition");
  fields.add("parts", "K", "Number of ranks. Each one owns a part of the graph.",
             HELIOGRAPH_MEMBER(partition.parts));
  fields.add(
      "partitioner", FieldKind::text, "metis|contiguous|random|file:PATH",
      "How nodes are assigned to ranks. file:PATH reads them from a file of METIS, NumPy or DGL "
      "(docs/data.md).",
      [](TrainOptions& options, const std::string& text) {
        set_partitioner(options.partition, text);
      },
      [](const TrainOptions& options) {
        return nlohmann::json(partitioner_text(options.partition));
      });
  fields.add(
      "objective",
      "What METIS minimises: edges between parts (edge_cut), or rows that ranks exchange (volume).",
      HELIOGRAPH_MEMBER(partition.objective));
  fields.add("partition-seed", "N", "Random seed of the partitioner.",
             HELIOGRAPH_MEMBER(partition.seed));
  fields.add("balance-train",
             "With --partitioner metis: give every part an equal share of the training nodes, as "
             "--inductive always does.",
             HELIOGRAPH_MEMBER(partition.balance_train));
  fields.add(
      "node-order",
      "How ranks number their nodes, for speed: as the data set does (id), in random order, or "
      "with nodes that share neighbours side by side (cluster). auto is cluster for graphs that "
      "are large enough to gain from it. Results differ by rounding only.",
      HELIOGRAPH_MEMBER(node_order));
  add_mebibytes(fields, "memory-limit-mib",
                "Refuse to train if graph, features, weights, activations, gradients, messages and "
                "evaluation need more than N MiB together. The program itself, reading the data "
                "and the scratch of kernels come on top. 0 allows what the machine has available.",
                0, &TrainOptions::memory_limit_bytes);
}

void add_checkpoints(TrainFields& fields) {
  fields.group("Checkpoints");
  fields.add(
      "checkpoint-every", "N",
      "With --out: save a checkpoint every N epochs and at the end; 0 saves only at SIGTERM, "
      "SIGINT, SIGHUP and SIGUSR1, and at the end of a run that has saved or resumed one.",
      HELIOGRAPH_MEMBER(checkpoint.every));
  fields.add(
      "on-save-failure",
      "What to do if a checkpoint cannot be written: warn and continue, or stop with exit code 4.",
      HELIOGRAPH_MEMBER(checkpoint.on_failure));
}

void add_bits(TrainFields& fields, const std::string& name, std::string help,
              Bits ExchangeOptions::*bits, Bits fewest = Bits::one) {
  fields.add(
      name, FieldKind::integer, "N", std::move(help),
      [name, bits, fewest](TrainOptions& options, const std::string& text) {
        options.exchange.*bits = parse_bits(name, text, fewest);
      },
      [bits](const TrainOptions& options) {
        return nlohmann::json(bit_count(options.exchange.*bits));
      });
}

void add_exchange(TrainFields& fields) {
  fields.group("Exchange");
  fields.add(
      "exchange",
      "What ranks send for the edges between their parts: the rows of all boundary nodes, or rows "
      "and partial sums of a smallest cover of these edges, which are fewer. auto takes the cover "
      "if it saves half of the rows or, with --link-gbps, more time than its sums take, and "
      "--kept-columns at 4 bits or fewer or, with --link-gbps, where these save more than they "
      "take.",
      HELIOGRAPH_MEMBER(exchange.rows));
  fields.add(
      "kept-columns",
      "Leave out the columns that dropout drops, which both ends of a message know, where rows are "
      "summed before they are multiplied by W. Fewer bytes, a little more computing, the same "
      "results.",
      HELIOGRAPH_MEMBER(exchange.kept_columns));
  fields.add(
      "bits", FieldKind::text, "32|16|8|4|2|1|auto[:BUDGET]",
      "Bits per value of the rows that ranks exchange. 32 is exact fp32, 16 is bfloat16, fewer are "
      "rounded at random without bias. auto gives 1, 2 or 4 bits to each row, more where its "
      "rounding adds more to errors, in the mean bytes of boundary rows at 1 bit; auto:1.5 in "
      "those of 1.5 bits, auto:20MB in 20 MB an epoch.",
      [](TrainOptions& options, const std::string& text) {
        ExchangeOptions& exchange = options.exchange;
        const bool number = text.find_first_not_of("+-0123456789") == std::string::npos;
        exchange.auto_bits = number ? "" : text;
        exchange.bits_forward = exchange.bits_backward =
            exchange.auto_bits.empty() ? parse_bits("bits", text) : Bits::one;
        parse_bit_budget(exchange.auto_bits);
      },
      [](const TrainOptions& options) -> nlohmann::json {
        const std::string& chosen = options.exchange.auto_bits;
        return chosen.empty() ? nlohmann::json() : nlohmann::json(chosen);
      });
  add_bits(
      fields, "bits-forward",
      "Bits per value of features, in the forward pass; overrides --bits. With --bits auto the "
      "fewest of a row.",
      &ExchangeOptions::bits_forward);
  add_bits(fields, "bits-backward", "Bits per value of gradients, in the backward pass; likewise.",
           &ExchangeOptions::bits_backward);
  fields.add(
      "bits-policy",
      "How bits differ from --bits, to compare with Sylvie's adaptive version: a rank's rows, "
      "by in-degree, get --bits, twice that and so on, up to 8, in equal groups (degree); all "
      "bits double, which ends lag, or halve with the trend of the loss (trend); or both.",
      HELIOGRAPH_MEMBER(exchange.bits_policy));
  add_bits(
      fields, "gradient-bits",
      "Bits per value of weight gradients: 32 is exact fp32; 16, 8 and 4 are integers that are "
      "rounded at random without bias, so results depend on the number of ranks. At 8 bits "
      "gradients take 3/8 of the bytes.",
      &ExchangeOptions::gradient_bits, Bits::four);
  fields.add(
      "staleness", "S",
      "Let an epoch use rows of other ranks that are up to S epochs old, so that their messages "
      "travel while it computes; 0 waits for the rows of the same epoch (synchronous).",
      HELIOGRAPH_MEMBER(exchange.staleness));
  fields.add("stale-sites", "lowest-backward|all|SITES",
             "With --staleness: which exchanges may use old rows; the others wait for the rows of "
             "the same epoch. lowest-backward is the last of an epoch, whose gradients reach the "
             "fewest weights (in appnp and dagnn all before the hops). SITES are names with "
             "commas, such as layers.1.forward.",
             HELIOGRAPH_MEMBER(exchange.stale_sites));
  fields.add("sync-every", "N",
             "With --staleness: make every N-th epoch synchronous; 0 makes none.",
             HELIOGRAPH_MEMBER(exchange.sync_every));
  fields.add("warmup-epochs", "N", "With --staleness: make the first N epochs synchronous.",
             HELIOGRAPH_MEMBER(exchange.warmup_epochs));
}

void add_transport(TrainFields& fields) {
  fields.group("Transport");
  fields.add(
      "transport", nccl_built() ? "auto|threads|mpi|tcp|nccl" : "auto|threads|mpi|tcp",
      "How ranks communicate: as threads of this process, or as processes over MPI (started by "
      "mpirun or srun) or over TCP (started by torchrun). auto finds out what started them.",
      HELIOGRAPH_MEMBER(transport.kind));
  fields.add("device", cuda_built() ? "cpu|cuda" : "cpu", "What ranks compute on.",
             HELIOGRAPH_MEMBER(transport.device));
  fields.add(
      "cuda-graphs",
      "With --device cuda: launch the kernels of an epoch as a few CUDA graphs instead of one by "
      "one. auto does so if a rank's part is so small that launching takes as long as "
      "computing.",
      HELIOGRAPH_MEMBER(transport.cuda_graphs));
  fields.add("threads-per-rank", "N",
             "Compute threads of each rank; 0 divides the cores, or the CPU quota of a container, "
             "among the ranks.",
             HELIOGRAPH_MEMBER(transport.threads_per_rank));
  fields.add(
      "pin",
      "With --transport threads: pin the threads of each rank to the rank's share of the CPUs. "
      "auto does so if there are more ranks than CPUs.",
      HELIOGRAPH_MEMBER(transport.pin));
  fields.add(
      "link-gbps", "X",
      "With --transport threads: limit each link, in each direction, to X Gbit/s to study a slow "
      "network; 0 sets no limit.",
      HELIOGRAPH_MEMBER(transport.link_gbps));
  fields.add(
      "link-latency-us", "X",
      "With --transport threads: delay each message by X microseconds. From --timeout on, that "
      "ends the run as a lost rank does.",
      HELIOGRAPH_MEMBER(transport.link_latency_us));
  fields.add(
      "row-blocks", "N",
      "Run each pass in N blocks of rows, so that rows of one travel while the next is computed, "
      "with a second pair of halo buffers; 0 chooses by the number of rows, and 1 on a CUDA device "
      "or if all rows are late or above 8 bits. Changes no number, except rounding on a CUDA "
      "device.",
      HELIOGRAPH_MEMBER(transport.row_blocks));
  fields.add("cuda-aware-mpi",
             "With --transport mpi: let MPI read messages from memory of CUDA devices, instead of "
             "copying them to the host first. auto does so if its library says it is CUDA-aware.",
             HELIOGRAPH_MEMBER(transport.cuda_aware_mpi));
  fields.add(
      "nccl-register",
      "With --transport nccl: register message buffers, so that NCCL may move them without a "
      "copy of its own. Whether that is faster depends on devices and links.",
      HELIOGRAPH_MEMBER(transport.nccl_register));
  fields.add("timeout", "X",
             "Longest wait for another rank that makes no progress, or, with processes, for rank 0 "
             "to write a file of results, seconds.",
             HELIOGRAPH_MEMBER(transport.timeout_seconds));
  const auto add_silence = [&](const char* name, const char* activity, auto access) {
    fields.add(
        name, "X",
        fmt::format("With ranks that are processes: a rank that is {} counts as lost after X "
                    "seconds without a sign of life.",
                    activity),
        access);
  };
  add_silence("silence-loading", "loading", HELIOGRAPH_MEMBER(transport.silence_loading));
  add_silence("silence-training", "training", HELIOGRAPH_MEMBER(transport.silence_training));
  add_silence("silence-saving", "writing results", HELIOGRAPH_MEMBER(transport.silence_saving));
}

std::vector<OptionField<TrainOptions>> build_fields() {
  TrainFields fields;
  add_data(fields);
  add_model_fields(fields);
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

nlohmann::ordered_json options_for_elsewhere(TrainOptions options) {
  std::filesystem::path& file = options.partition.file;
  if (!file.empty()) file = std::filesystem::absolute(file);
  return options_to_json(options);
}

std::string seeded_split(const TrainOptions& options) {
  const nlohmann::ordered_json values = options_to_json(options);
  const nlohmann::ordered_json& split = values.at("split");
  std::string text = split.is_string() ? split.get<std::string>() : json_text(split);
  if (values.contains("split-seed")) text += ", seed " + json_text(values.at("split-seed"));
  if (values.value("stratified", false)) text += ", stratified";
  return text;
}

void options_from_json(const nlohmann::json& object, const std::string& origin,
                       TrainOptions& options) {
  apply_json(train_option_fields(), object, origin, options);
}

}  // namespace heliograph
