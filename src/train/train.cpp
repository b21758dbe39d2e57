#include "heliograph/train.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>

#include "comm/thread_transport.hpp"
#include "heliograph/error.hpp"
#include "train/dataset_plan.hpp"
#include "train/memory_check.hpp"
#include "train/process_memory.hpp"
#include "train/trainer.hpp"

namespace heliograph {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// The best epoch by validation score, and whether patience has run out.
class BestEpoch {
 public:
  explicit BestEpoch(int patience) : patience_(patience) {}

  /// True if `scores` are the best so far; as long as none is known, the latest count as best.
  bool improves(const Scores& scores) {
    const bool better = std::isnan(best_.validation) || scores.validation > best_.validation;
    waited_ = better ? 0 : waited_ + 1;
    if (better) best_ = scores;
    return better;
  }
  bool exhausted() const { return patience_ > 0 && waited_ >= patience_; }
  const Scores& scores() const { return best_; }

 private:
  int patience_;
  int waited_ = 0;
  Scores best_{kUnknown, kUnknown, kUnknown};
};

std::optional<double> known(double score) {
  return std::isnan(score) ? std::nullopt : std::optional<double>(score);
}

/// What the ranks hold, or held at most, all together. Collective.
template <class OfRoom>
MemoryNeeds sum_over_ranks(Communicator& comm, OfRoom of_room) {
  MemoryNeeds sum;
  for (std::size_t i = 0; i < sum.rooms.size(); ++i) {
    sum.rooms[i] = of_room(static_cast<MemoryRoom>(i));
  }
  AllReduce(comm, Channel::evaluation).sum(std::span<std::int64_t>(sum.rooms));
  return sum;
}

/// The exact sum, now that every buffer is there. Memory is taken when it is first written, so
/// what training alone writes is still to come.
void check_memory(const MemoryNeeds& held, const TrainOptions& options) {
  if (options.memory_limit_bytes > 0) {
    require_memory(held, options.memory_limit_bytes, std::nullopt);
    return;
  }
  MemoryNeeds to_come;
  for (const MemoryRoom room : {MemoryRoom::activations, MemoryRoom::gradients, MemoryRoom::halo}) {
    to_come[room] = held[room];
  }
  require_memory(to_come, 0, available_memory_bytes());
}

MemoryReport report_memory(const MemoryNeeds& bytes) {
  return {bytes[MemoryRoom::graph],       bytes[MemoryRoom::features],
          bytes[MemoryRoom::activations], bytes[MemoryRoom::gradients],
          bytes[MemoryRoom::halo],        bytes[MemoryRoom::weights],
          bytes[MemoryRoom::workspace],   bytes[MemoryRoom::evaluation]};
}

/// The body of one rank. Only rank 0 writes to `result` and calls back.
void train_rank(const RunPlan& plan, Communicator& comm, const TrainCallbacks& callbacks,
                TrainResult& result, std::chrono::steady_clock::time_point begin) {
  const TrainOptions& options = plan.options();
  const bool root = comm.rank() == 0;
  Arena arena(static_cast<std::size_t>(address_space_of_a_rank(comm.size())));
  MemoryAccount account(&arena);
  Trainer trainer(plan, comm, &account);
  const MemoryNeeds held = sum_over_ranks(comm, [&](MemoryRoom r) { return account.live(r); });
  account.reset_peaks();
  if (root) {
    check_memory(held, options);
    result.setup_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    result.setup_peak_rss_bytes = peak_rss_bytes();
    if (!reset_peak_rss() && callbacks.log) {
      callbacks.log(LogLevel::warning,
                    "the system does not let a process reset its peak memory: what is given for "
                    "training includes loading and partitioning");
    }
    result.parameters = trainer.model().parameters().weights();
  }

  if (root) result.epochs.reserve(static_cast<std::size_t>(std::min(options.epochs, 1 << 16)));
  BestEpoch best(options.patience);
  std::string stop_reason = "completed";
  TrafficBytes bytes;
  std::int64_t fp32_bytes = 0;
  int epochs = 0;
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    EpochReport report = trainer.run_epoch(epoch);
    ++epochs;
    bytes.halo_forward += report.bytes.halo_forward;
    bytes.halo_backward += report.bytes.halo_backward;
    bytes.allreduce += report.bytes.allreduce;
    fp32_bytes += report.fp32_bytes;
    const bool stopped =
        trainer.any_rank(root && callbacks.stop != nullptr && callbacks.stop->load());
    const bool last = epoch + 1 == options.epochs;
    if (!stopped && (last || (epoch + 1) % options.eval_every == 0)) {
      const Scores scores = trainer.evaluate(epoch);
      if (best.improves(scores)) {
        trainer.keep_predictions();
        if (root) result.best_epoch = epoch;
      }
      report.train_metric = known(scores.train);
      report.val_metric = known(scores.validation);
      report.test_metric = known(scores.test);
    }
    if (root) {
      result.epochs.push_back(report);
      if (callbacks.on_epoch) callbacks.on_epoch(report);
    }
    if (stopped || best.exhausted()) {
      stop_reason = stopped ? "interrupted" : "early_stopping";
      break;
    }
  }
  trainer.finish();
  trainer.collect_predictions(result);
  trainer.collect_traffic(result);
  std::int64_t evaluation_bytes = comm.bytes_sent(Channel::evaluation);
  AllReduce(comm, Channel::evaluation).sum(std::span<std::int64_t>(&evaluation_bytes, 1));
  const MemoryNeeds peak = sum_over_ranks(comm, [&](MemoryRoom r) { return account.peak(r); });
  if (!root) return;
  result.memory = report_memory(peak);
  result.stop_reason = stop_reason;
  result.val_metric = best.scores().validation;
  result.test_metric = best.scores().test;
  result.evaluation_bytes = evaluation_bytes;
  result.peak_rss_bytes = peak_rss_bytes();
  if (epochs > 0) {
    result.bytes_per_epoch = {bytes.halo_forward / epochs, bytes.halo_backward / epochs,
                              bytes.allreduce / epochs};
    result.fp32_bytes_per_epoch = fp32_bytes / epochs;
  }
}

}  // namespace

TrainResult train(const Dataset& dataset, const TrainOptions& options,
                  const TrainCallbacks& callbacks) {
  const auto begin = std::chrono::steady_clock::now();
  const DatasetPlan plan(dataset, options, callbacks.log);
  TrainResult result;
  result.metric = plan.metric();
  result.partition = plan.facts().quality;
  result.partition_hash = plan.facts().partition_hash;
  const ThreadTransportOptions transport{
      {options.transport.link_gbps, options.transport.link_latency_us},
      options.transport.timeout_seconds};
  run_ranks(plan.facts().ranks, transport,
            [&](Communicator& comm) { train_rank(plan, comm, callbacks, result, begin); });
  return result;
}

}  // namespace heliograph
