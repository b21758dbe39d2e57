#include "heliograph/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "comm/mpi/transport.hpp"
#include "comm/nccl/transport.hpp"
#include "core/copy_bytes.hpp"
#include "core/kernels.hpp"
#include "core/throw_error.hpp"
#include "graph/split.hpp"
#include "heliograph/error.hpp"
#include "layers/compose.hpp"
#include "staleness/bit_budget.hpp"
#include "staleness/exchange_policy.hpp"
#include "train/options/given.hpp"
#include "train/options/json.hpp"
#include "train/options/values.hpp"

namespace heliograph {
namespace {

constexpr int kMostRowBlocks = 64;

template <class Value>
void require_value(bool fits, const char* name, const std::string& rule, Value value) {
  if (!fits) throw_error(ErrorCode::usage, "--{} must be {}, not {}", name, rule, value);
}

void require_together(bool fits, const char* sentence) {
  if (!fits) throw Error(ErrorCode::usage, spell_options(sentence));
}

template <class Value>
void require_at_least(int least, const char* name, Value value) {
  require_value(value >= static_cast<Value>(least) && std::isfinite(static_cast<double>(value)),
                name, fmt::format("at least {}", least), value);
}

template <class Value>
void require_above_0(const char* name, Value value) {
  require_value(value > 0 && std::isfinite(value), name, "above 0", value);
}

/// An option that only some models have a place for.
struct ModelOption {
  const char* name;
  std::vector<ModelKind> kinds;
  bool asked;              ///< Whether it has another value than its default.
  bool may_be_off = true;  ///< Whether to give the default asks for nothing.

  bool fits(ModelKind kind) const { return std::ranges::find(kinds, kind) != kinds.end(); }
};

std::vector<ModelOption> model_options(const ModelOptions& model) {
  using enum ModelKind;
  const ModelOptions defaults;
  const std::vector<ModelKind> convolving{gcn, sage, gin, jknet, gat, gat_sep, gatv2};
  const std::vector<ModelKind> attending{gat, gat_sep, gatv2};
  return {
      {"hops", {appnp, dagnn}, model.hops != defaults.hops, false},
      {"teleport", {appnp}, model.teleport != defaults.teleport, false},
      {"eps-learned", {gin}, model.eps_learned},
      {"theta", {gcnii}, model.theta != defaults.theta, false},
      {"alpha", {gcnii}, model.alpha != defaults.alpha, false},
      {"jk", convolving, model.jk != JumpingKnowledge::none},
      {"feed-forward", {gcn, sage, jknet, gat, gat_sep, gatv2}, model.feed_forward > 0},
      {"residual linear", {gcn, jknet, gat, gatv2}, model.residual == Residual::linear},
      {"pre-norm", convolving, model.pre_norm},
      {"input-linear",
       {gcn, sage, gin, jknet, appnp, dagnn, gat, gat_sep, gatv2},
       model.input_linear},
      {"output-linear", convolving, model.output_linear},
      {"heads", attending, model.heads != defaults.heads, false},
      {"output-heads", {gat, gatv2}, model.output_heads != defaults.output_heads, false},
      {"concat-heads", attending, !model.concat_heads, false},
      {"attention-dropout", attending, model.attention_dropout != defaults.attention_dropout,
       false},
      {"negative-slope", attending, model.negative_slope != defaults.negative_slope, false},
  };
}

/// Refuses options that the model has no place for.
void validate_composition(const ModelOptions& model, const GivenOption& given) {
  const ModelKind kind = model.kind;
  for (const ModelOption& option : model_options(model)) {
    const bool asked = option.asked || (!option.may_be_off && given(option.name));
    if (!asked || option.fits(kind)) continue;
    std::vector<std::string> names;
    for (const ModelKind k : option.kinds) names.push_back(choice_name(k));
    // APPNP's paper and other libraries call it alpha.
    const bool teleports = kind == ModelKind::appnp && std::string_view(option.name) == "alpha";
    throw_error(ErrorCode::usage, "--{} is for --model {}, not {}{}", option.name, listed(names),
                choice_name(kind), teleports ? ", which has --teleport" : "");
  }
  const bool only_logits = model.layers == 1 && averages_logits(model);
  if (attends(model) && model.concat_heads && !only_logits && model.hidden % model.heads != 0) {
    throw_error(ErrorCode::usage,
                "--hidden {} is not a multiple of --heads {}: heads are side by side in a layer's "
                "output; change either, or add --no-concat-heads",
                model.hidden, model.heads);
  }
  if (attends(model) && model.aggregate_storage == RowStorage::bf16) {
    throw_error(ErrorCode::usage,
                "--aggregate-storage bf16 is not for --model {}: attention reads "
                "fp32 rows",
                choice_name(kind));
  }
  const bool joins = kind == ModelKind::jknet || model.jk != JumpingKnowledge::none;
  require_together(!joins || model.layers > 1,
                   "--jk and --model jknet join the outputs of layers, and --layers 1 leaves "
                   "nothing to join");
  require_together(!model.pre_norm || model.norm != NormLayer::none,
                   "--pre-norm needs --norm layer or batch");
  require_together(!model.pre_norm || (model.residual == Residual::identity && model.input_linear &&
                                       (model.output_linear || joins)),
                   "--pre-norm needs --residual, --input-linear and --output-linear");
}

void validate_model(const ModelOptions& model, const GivenOption& given) {
  // The upper bounds keep the bytes of a model and of its passes over 2^28 nodes within 64 bits.
  require_value(model.layers >= 1 && model.layers <= 1024, "layers", "from 1 to 1024",
                model.layers);
  require_value(model.hidden >= 1 && model.hidden <= 1 << 20, "hidden", "from 1 to 1048576",
                model.hidden);
  const auto require_probability = [](const char* name, float p) {
    require_value(p >= 0 && p < 1, name, "at least 0 and below 1", p);
  };
  require_probability("dropout", model.dropout);
  require_probability("input-dropout", model.input_dropout.value_or(0));
  require_value(model.feed_forward >= 0 && model.feed_forward <= 64, "feed-forward", "from 0 to 64",
                model.feed_forward);
  const std::int64_t inside = std::int64_t{model.hidden} * std::max(model.feed_forward, 1);
  if (inside > 1 << 20) {
    throw_error(ErrorCode::usage,
                "--feed-forward {} makes blocks of {} columns with --hidden {}; lower either: at "
                "most 1048576 columns are possible",
                model.feed_forward, inside, model.hidden);
  }
  require_value(model.hops >= 1 && model.hops <= 1024, "hops", "from 1 to 1024", model.hops);
  require_value(model.teleport > 0 && model.teleport < 1, "teleport", "above 0 and below 1",
                model.teleport);
  // Beyond, the share of the first layer's weight would exceed 1.
  require_value(model.theta > 0 && model.theta <= 1.7F, "theta", "above 0 and at most 1.7",
                model.theta);
  require_value(model.alpha >= 0 && model.alpha < 1, "alpha", "at least 0 and below 1",
                model.alpha);
  require_value(model.heads >= 1 && model.heads <= 256, "heads", "from 1 to 256", model.heads);
  require_value(model.output_heads >= 0 && model.output_heads <= 256, "output-heads",
                "from 0 to 256", model.output_heads);
  require_probability("attention-dropout", model.attention_dropout);
  require_value(model.negative_slope >= 0 && model.negative_slope <= 1, "negative-slope",
                "from 0 to 1", model.negative_slope);
  validate_composition(model, given);
}

void validate_exchange(const ExchangeOptions& exchange, const ModelOptions& model) {
  if (parse_bit_budget(exchange.auto_bits)) {
    require_together(!attends(model),
                     "--bits auto is not built for models with attention, whose rows all have "
                     "--bits-forward and --bits-backward");
    require_together(std::max(exchange.bits_forward, exchange.bits_backward) <= Bits::four,
                     "--bits auto, which may come from a config, gives rows 4 bits at most, so "
                     "--bits-forward and --bits-backward, the fewest, must be 1, 2 or 4");
  }
  const bool by_degree = bits_follow_degree(exchange.bits_policy);
  if (exchange.bits_policy != BitsPolicy::uniform) {
    require_together(exchange.auto_bits.empty() &&
                         std::max(exchange.bits_forward, exchange.bits_backward) <= Bits::eight,
                     "--bits-policy needs --bits 1, 2, 4 or 8, with which it begins; other bits "
                     "need --bits-policy uniform");
    require_together(!by_degree || !attends(model),
                     "--bits-policy degree is not built for models with attention, whose rows all "
                     "have --bits-forward and --bits-backward");
    require_together(!by_degree || exchange.rows == ExchangedRows::boundary,
                     "--bits-policy degree needs --exchange boundary: partial sums are of no node");
  }
  const Bits fewest = fewest_bits(model);
  for (const auto& [name, bits] : {std::pair{"bits-forward", exchange.bits_forward},
                                   std::pair{"bits-backward", exchange.bits_backward}}) {
    check_bits(name, bit_count(bits));
    if (bits >= fewest) continue;
    throw_error(ErrorCode::usage,
                "--{} {} is not for --model {}, which makes its scores of the rows that travel: it "
                "takes at least {} bits, and --model gat any number",
                name, bit_count(bits), choice_name(model.kind), bit_count(fewest));
  }
  check_bits("gradient-bits", bit_count(exchange.gradient_bits), Bits::four);
  require_at_least(0, "staleness", exchange.staleness);
  require_at_least(0, "sync-every", exchange.sync_every);
  require_at_least(0, "warmup-epochs", exchange.warmup_epochs);
}

void validate_optimizer(const OptimizerOptions& optimizer, const GivenOption& given) {
  require_above_0("lr", optimizer.lr);
  require_at_least(0, "lr-warmup", optimizer.lr_warmup);
  require_at_least(0, "weight-decay", optimizer.weight_decay);
  require_at_least(0, "clip-norm", optimizer.clip_norm);
  require_at_least(1, "step-size", optimizer.step_size);
  require_value(optimizer.step_gamma > 0 && optimizer.step_gamma <= 1, "step-gamma",
                "above 0 and at most 1", optimizer.step_gamma);
  const OptimizerOptions defaults;
  const bool steps = optimizer.schedule == Schedule::step;
  require_together(steps || (optimizer.step_size == defaults.step_size && !given("step-size")),
                   "--step-size needs --schedule step");
  require_together(steps || (optimizer.step_gamma == defaults.step_gamma && !given("step-gamma")),
                   "--step-gamma needs --schedule step");
}

void validate_loss(const LossOptions& loss) {
  require_value(loss.label_smoothing >= 0 && loss.label_smoothing < 1, "label-smoothing",
                "at least 0 and below 1", loss.label_smoothing);
}

void validate_transport(const TransportOptions& transport) {
  const TransportKind kind = transport.kind;
  const bool nccl = kind == TransportKind::nccl, mpi = kind == TransportKind::mpi;
  const bool cuda = transport.device == DeviceKind::cuda;
  require_together(
      !nccl || nccl_built(),
      "--transport nccl: this build has no NCCL; use another transport, or a build whose "
      "\"heliograph info\" lists nccl");
  require_together(!nccl || cuda, "--transport nccl needs --device cuda");
  require_together(
      !mpi || mpi_built(),
      "--transport mpi: this build has no MPI transport; use threads or tcp, or a build whose "
      "\"heliograph info\" lists mpi");
  require_together(!cuda || cuda_built(),
                   "--device cuda: this build has no CUDA; use cpu, or a build whose \"heliograph "
                   "info\" lists cuda");
  require_together(transport.cuda_aware_mpi != CudaAwareMpi::on || (mpi && cuda),
                   "--cuda-aware-mpi on needs --transport mpi and --device cuda");
  require_together(!transport.nccl_register || nccl, "--nccl-register needs --transport nccl");
  require_together(!transport.nccl_register || nccl_registers(),
                   "--nccl-register: this build's NCCL is older than 2.19 and registers nothing");
  require_together(transport.cuda_graphs != CudaGraphs::on || cuda,
                   "--cuda-graphs on needs --device cuda");
  require_at_least(0, "threads-per-rank", transport.threads_per_rank);
  require_value(transport.row_blocks >= 0 && transport.row_blocks <= kMostRowBlocks, "row-blocks",
                fmt::format("from 0 to {}", kMostRowBlocks), transport.row_blocks);
  require_at_least(0, "link-gbps", transport.link_gbps);
  require_at_least(0, "link-latency-us", transport.link_latency_us);
  require_above_0("timeout", transport.timeout_seconds);
  require_above_0("silence-loading", transport.silence_loading);
  require_above_0("silence-training", transport.silence_training);
  require_above_0("silence-saving", transport.silence_saving);
  const bool shaped = transport.link_gbps != 0 || transport.link_latency_us != 0;
  if (shaped && kind != TransportKind::automatic && kind != TransportKind::threads) {
    throw_error(ErrorCode::usage,
                "--link-gbps and --link-latency-us shape the links "
                "between threads, not those of --transport {}",
                choice_name(kind));
  }
}

/// Starts CUDA if ranks compute on its devices, and throws Error(usage) unless there is one. NCCL
/// needs all kernels loaded at this start.
void start_cuda(const TransportOptions& transport) {
  if (transport.kind == TransportKind::nccl) load_cuda_kernels_at_once();
  if (transport.device == DeviceKind::cuda) require_cuda_devices("--device cuda");
}

}  // namespace

std::vector<IdleOptions> idle_options(const ModelOptions& model) {
  std::vector<IdleOptions> idle;
  if (!convolves(model) || attends(model)) {
    idle.push_back({{"transform-first"}, "this model: it sums no features"});
  }
  if (!convolves(model)) idle.push_back({{"precompute"}, "this model: it gathers no features"});
  if (!averages_logits(model)) {
    idle.push_back({{"output-heads"}, "this model: no layer of attention makes its logits"});
  }
  // A gin layer is an MLP, and attention of gat-sep has --hidden columns, as in a hidden layer.
  if (model.layers == 1 && !maps_output(model) && model.kind != ModelKind::gin &&
      model.kind != ModelKind::gat_sep) {
    std::vector<std::string> names{"norm"};
    if (!model.input_linear) names.emplace_back("activation");
    if (!model.input_linear && model.feed_forward == 0) names.emplace_back("hidden");
    idle.push_back({std::move(names), "--layers 1: there is no hidden layer"});
  }
  return idle;
}

ModelOptions composed_model(const TrainOptions& options) {
  ModelOptions model = options.model;
  if (options.reproducible && attends(model)) model.precompute = false;
  return model;
}

bool exchanges_rows(const TrainOptions& options) { return exchanges_rows(composed_model(options)); }

std::vector<std::string> misplaced_options(const TrainOptions& options,
                                           const TrainOptions& before) {
  std::vector<std::string> names;
  for (const ModelOption& option : model_options(options.model)) {
    if (!option.may_be_off && option.fits(before.model.kind) && !option.fits(options.model.kind)) {
      names.emplace_back(option.name);
    }
  }
  if (options.optimizer.schedule != Schedule::step && before.optimizer.schedule == Schedule::step) {
    names.insert(names.end(), {"step-size", "step-gamma"});
  }
  return names;
}

void validate(const TrainOptions& options) {
  validate(options, [](const std::string&) { return false; });
}

void validate(const TrainOptions& options, const GivenOption& given) {
  (void)options_to_json(options);  // Throws for a value that its enumeration does not have.
  validate_model(options.model, given);
  validate_exchange(options.exchange, options.model);
  validate_optimizer(options.optimizer, given);
  validate_loss(options.loss);
  validate_transport(options.transport);
  start_cuda(options.transport);
  check_split_choice(options.split);
  require_at_least(1, "parts", options.partition.parts);
  require_together(
      options.partition.partitioner != Partitioner::file || !options.partition.file.empty(),
      "--partitioner file:PATH needs a path");
  require_together(
      !options.partition.balance_train || options.partition.partitioner == Partitioner::metis,
      "--balance-train needs --partitioner metis: no other one balances");
  require_together(!options.reproducible || options.model.aggregate_storage == RowStorage::fp32,
                   "--aggregate-storage bf16 cannot be combined with --reproducible, which rounds "
                   "no rows");
  const bool covers = options.exchange.rows == ExchangedRows::cover;
  require_together(!covers || !options.reproducible,
                   "--exchange cover cannot be combined with --reproducible: the order of its sums "
                   "depends on the number of ranks");
  require_together(!covers || !attends(options.model),
                   "--exchange cover is not for attention, which weighs the rows of single nodes; "
                   "--exchange boundary sends these");
  require_together(!options.reproducible || options.exchange.gradient_bits == Bits::fp32,
                   "--gradient-bits cannot be combined with --reproducible, whose gradients are "
                   "summed in fp64");
  require_together(!options.reproducible || options.transport.device == DeviceKind::cpu,
                   "--reproducible needs --device cpu: devices do not sum in fp64");
  require_together(!options.tf32 || options.transport.device == DeviceKind::cuda,
                   "--tf32 needs --device cuda");
  require_at_least(0, "checkpoint-every", options.checkpoint.every);
  require_together(options.checkpoint.every == 0 || !options.checkpoint.folder.empty(),
                   "--checkpoint-every, which may come from a config, needs a directory to save to "
                   "(--out; in the library checkpoint.folder); --checkpoint-every 0 saves none");
  require_at_least(1, "epochs", options.epochs);
  require_at_least(0, "eval-every", options.eval_every);
  require_at_least(0, "verify", options.verify_every);
  require_together(options.verify_every == 0 || options.transport.device == DeviceKind::cpu,
                   "--verify needs --device cpu");
  require_together(!options.guard || options.transport.device == DeviceKind::cpu,
                   "--guard needs --device cpu");
  const bool uniform = options.exchange.bits_policy == BitsPolicy::uniform;
  require_together(uniform || options.transport.device == DeviceKind::cpu,
                   "--bits-policy needs --device cpu");
  require_together(uniform || !options.guard,
                   "--guard cannot be combined with --bits-policy: both change the bits of rows");
  require_at_least(0, "patience", options.patience);
  require_together(options.patience == 0 || options.eval_every > 0,
                   "--patience needs evaluations, and --eval-every 0 makes none");
  const bool keeps = options.keep_logits || options.keep_embeddings;
  require_together(!keeps || options.eval_every > 0,
                   "--save-logits and --save-embeddings need an evaluation, and --eval-every 0 "
                   "makes none");
  const ModelOptions& model = options.model;
  require_together(
      !options.keep_embeddings || model.layers > 1 || model.input_linear || maps_output(model),
      "--save-embeddings needs at least 2 layers, or an input or output map: embeddings "
      "are what the last product reads");
  require_value(options.eval_chunk_bytes >= 1, "eval-chunk-mib", "at least 1 MiB",
                options.eval_chunk_bytes);
  require_at_least(0, "memory-limit-mib", options.memory_limit_bytes);
}

}  // namespace heliograph
