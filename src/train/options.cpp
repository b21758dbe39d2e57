#include "heliograph/options.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "comm/mpi_transport.hpp"
#include "comm/nccl_transport.hpp"
#include "core/copy_bytes.hpp"
#include "core/kernels.hpp"
#include "heliograph/error.hpp"
#include "train/option_values.hpp"

namespace heliograph {
namespace {

template <class Value>
void require(bool fits, const char* flag, const char* rule, Value value) {
  if (!fits) throw Error(ErrorCode::usage, fmt::format("{} must be {}, not {}", flag, rule, value));
}

void require_together(bool fits, const char* sentence) {
  if (!fits) throw Error(ErrorCode::usage, sentence);
}

// Written so that NaN fails.
bool not_negative(double x) { return x >= 0 && std::isfinite(x); }

void validate_model(const ModelOptions& model) {
  // The bounds above keep every product of sizes within 64 bits.
  require(model.layers >= 1 && model.layers <= 1024, "--layers", "from 1 to 1024", model.layers);
  require(model.hidden >= 1 && model.hidden <= 1 << 20, "--hidden", "from 1 to 1048576",
          model.hidden);
  require(model.dropout >= 0 && model.dropout < 1, "--dropout", "at least 0 and below 1",
          model.dropout);
}

void validate_exchange(const ExchangeOptions& exchange) {
  check_bits("bits-forward", exchange.bits_forward);
  check_bits("bits-backward", exchange.bits_backward);
  require(exchange.staleness >= 0, "--staleness", "at least 0", exchange.staleness);
  require(exchange.sync_every >= 0, "--sync-every", "at least 0", exchange.sync_every);
  require(exchange.warmup_epochs >= 0, "--warmup-epochs", "at least 0", exchange.warmup_epochs);
}

void validate_optimizer(const OptimizerOptions& optimizer) {
  require(optimizer.lr > 0 && std::isfinite(optimizer.lr), "--lr", "above 0", optimizer.lr);
  require(not_negative(optimizer.weight_decay), "--weight-decay", "at least 0",
          optimizer.weight_decay);
  require(not_negative(optimizer.clip_norm), "--clip-norm", "at least 0", optimizer.clip_norm);
  require(optimizer.step_size >= 1, "--step-size", "at least 1", optimizer.step_size);
  require(optimizer.step_gamma > 0 && optimizer.step_gamma <= 1, "--step-gamma",
          "above 0 and at most 1", optimizer.step_gamma);
}

void validate_transport(const TransportOptions& transport) {
  if (transport.kind == TransportKind::nccl && !nccl_built()) {
    throw Error(ErrorCode::usage,
                "--transport nccl: this build has no NCCL; use another transport, or a build whose "
                "\"heliograph info\" lists nccl");
  }
  require_together(transport.kind != TransportKind::nccl || transport.device == DeviceKind::cuda,
                   "--transport nccl needs --device cuda");
  if (transport.kind == TransportKind::mpi && !mpi_built()) {
    throw Error(
        ErrorCode::usage,
        "--transport mpi: this build has no MPI transport; use threads or tcp, or a build whose "
        "\"heliograph info\" lists mpi");
  }
  if (transport.device == DeviceKind::cuda && !cuda_built()) {
    throw Error(ErrorCode::usage,
                "--device cuda: this build has no CUDA; use cpu, or a build whose \"heliograph "
                "info\" lists cuda");
  }
  require_together(
      transport.cuda_aware_mpi != CudaAwareMpi::on ||
          (transport.kind == TransportKind::mpi && transport.device == DeviceKind::cuda),
      "--cuda-aware-mpi on needs --transport mpi and --device cuda");
  require_together(!transport.nccl_register || transport.kind == TransportKind::nccl,
                   "--nccl-register needs --transport nccl");
  require_together(!transport.nccl_register || nccl_registers(),
                   "--nccl-register: this build's NCCL is older than 2.19 and registers nothing");
  require_together(transport.cuda_graphs != CudaGraphs::on || transport.device == DeviceKind::cuda,
                   "--cuda-graphs on needs --device cuda");
  if (transport.kind == TransportKind::nccl) load_cuda_kernels_at_once();
  if (transport.device == DeviceKind::cuda) require_cuda_devices("--device cuda");
  require(transport.threads_per_rank >= 0, "--threads-per-rank", "at least 0",
          transport.threads_per_rank);
  require(not_negative(transport.link_gbps), "--link-gbps", "at least 0", transport.link_gbps);
  require(not_negative(transport.link_latency_us), "--link-latency-us", "at least 0",
          transport.link_latency_us);
  require(transport.timeout_seconds > 0 && std::isfinite(transport.timeout_seconds), "--timeout",
          "above 0", transport.timeout_seconds);
  for (const auto& [flag, seconds] : {std::pair{"--silence-loading", transport.silence_loading},
                                      std::pair{"--silence-training", transport.silence_training},
                                      std::pair{"--silence-saving", transport.silence_saving}}) {
    require(seconds > 0 && std::isfinite(seconds), flag, "above 0", seconds);
  }
  const bool shaped = transport.link_gbps != 0 || transport.link_latency_us != 0;
  require_together(transport.kind != TransportKind::mpi || !shaped,
                   "--link-gbps and --link-latency-us shape the links between threads, not those "
                   "of --transport mpi");
  require_together(transport.kind != TransportKind::tcp || !shaped,
                   "--link-gbps and --link-latency-us shape the links between threads, not those "
                   "of --transport tcp");
  require_together(transport.kind != TransportKind::nccl || !shaped,
                   "--link-gbps and --link-latency-us shape the links between threads, not those "
                   "of --transport nccl");
}

void validate_split(const TrainOptions& options) {
  require(options.split >= 0, "--split", "at least 0", options.split);
  if (!options.random_split) {
    require_together(!options.stratified, "--stratified needs --split random:T/V/E");
    return;
  }
  const std::string text = split_text(options);
  require(not_negative(options.train_share) && not_negative(options.validation_share) &&
              not_negative(options.test_share),
          "--split", "made of shares of at least 0", text);
  require(options.train_share > 0, "--split", "given a training share above 0", text);
  require(options.train_share + options.validation_share + options.test_share <= 100 + 1e-9,
          "--split", "made of shares that sum to at most 100", text);
}

}  // namespace

void validate(const TrainOptions& options) {
  validate_model(options.model);
  validate_exchange(options.exchange);
  validate_optimizer(options.optimizer);
  validate_transport(options.transport);
  validate_split(options);
  require(options.partition.parts >= 1, "--parts", "at least 1", options.partition.parts);
  require_together(
      options.partition.partitioner != Partitioner::file || !options.partition.file.empty(),
      "--partitioner file:PATH needs a path");
  require_together(!options.reproducible || options.model.aggregate_storage == RowStorage::fp32,
                   "--aggregate-storage bf16 rounds, and --reproducible may not: use one of them");
  require_together(!options.reproducible || options.transport.device == DeviceKind::cpu,
                   "--reproducible needs --device cpu: devices do not sum in fp64");
  require_together(!options.tf32 || options.transport.device == DeviceKind::cuda,
                   "--tf32 needs --device cuda");
  require(options.checkpoint.every >= 0, "--checkpoint-every", "at least 0",
          options.checkpoint.every);
  require_together(options.checkpoint.every == 0 || !options.checkpoint.folder.empty(),
                   "--checkpoint-every needs --out: a directory to save to");
  require(options.epochs >= 1, "--epochs", "at least 1", options.epochs);
  require(options.eval_every >= 1, "--eval-every", "at least 1", options.eval_every);
  require(options.patience >= 0, "--patience", "at least 0", options.patience);
  require(options.eval_chunk_bytes >= 1, "--eval-chunk-mib", "at least 1 MiB",
          options.eval_chunk_bytes);
  require(options.memory_limit_bytes >= 0, "--memory-limit-mib", "at least 0",
          options.memory_limit_bytes);
}

}  // namespace heliograph
