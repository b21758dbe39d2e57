#include "train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/overflow_advice.hpp"
#include "core/thread.hpp"
#include "core/throw_error.hpp"
#include "train/host_values.hpp"
#include "train/launch.hpp"
#include "train/options/given.hpp"
#include "train/plan/derived_exchanges.hpp"

namespace heliograph {
namespace {

using WallClock = std::chrono::steady_clock;

/// Pins the calling thread first where the options say so: the kernels' threads inherit its CPUs.
std::unique_ptr<Kernels> make_kernels(const TrainOptions& options, const Communicator& comm,
                                      MemoryAccount* account) {
  const TransportOptions& transport = options.transport;
  const int threads = threads_per_rank(transport, comm.size());
  const bool crowded = comm.size() > allowed_cpus();
  const bool shares_process =
      transport.kind != TransportKind::nccl && !ranks_are_processes(transport);
  if (shares_process && transport.pin != Pinning::off &&
      (transport.pin == Pinning::on || crowded)) {
    keep_to_share(comm.rank(), comm.size());
  }
  if (transport.device == DeviceKind::cuda) {
    return make_cuda_kernels(device_of_rank(transport, comm), threads,
                             {options.tf32, ranks_are_processes(transport) ? 1 : comm.size()});
  }
  return make_cpu_kernels(threads, options.reproducible, account);
}

/// Bytes that a device reads in about the 2 to 4 us that its host needs to launch a kernel: 8 MiB
/// take 4.2 us at 2 TB/s and 1.7 us at 4.8 TB/s.
constexpr std::int64_t kBytesReadInALaunch = std::int64_t{8} << 20;

/// While it lives, and if `repeats`, the device is told that each epoch asks for the same work.
class RepeatedWork {
 public:
  RepeatedWork(Device& device, bool repeats) : device_(device), repeats_(repeats) {
    if (repeats_) device_.begin_repeated();
  }
  ~RepeatedWork() {
    if (repeats_) device_.end_repeated();
  }
  RepeatedWork(const RepeatedWork&) = delete;
  RepeatedWork& operator=(const RepeatedWork&) = delete;

 private:
  Device& device_;
  bool repeats_;
};

/// The least of the ranks' pairs. Collective.
std::pair<double, double> least_of_ranks(Communicator& comm, std::pair<double, double> mine) {
  std::vector<double> all(2 * static_cast<std::size_t>(comm.size()), 0.0);
  const auto at = 2 * static_cast<std::size_t>(comm.rank());
  all[at] = mine.first;
  all[at + 1] = mine.second;
  AllReduce(comm, Channel::evaluation).sum(std::span<double>(all));
  std::pair<double, double> least{all[0], all[1]};
  for (std::size_t i = 2; i < all.size(); i += 2) least = std::min(least, {all[i], all[i + 1]});
  return least;
}

constexpr auto kNowhere = std::numeric_limits<double>::max();

/// Throws Error(numeric) that names the first layer whose rows a device could not encode, on any
/// rank, and the first such row's node. Returns if there is none. Collective.
void refuse_noted_row(Communicator& comm, const StaleHalo& halo, int epoch) {
  const std::optional<StaleHalo::NotedRow> mine = halo.noted_row();
  const auto [exchange, node] = least_of_ranks(
      comm, mine ? std::pair(static_cast<double>(mine->exchange), static_cast<double>(mine->node))
                 : std::pair(kNowhere, kNowhere));
  if (exchange == kNowhere) return;
  if (!mine || static_cast<double>(mine->exchange) != exchange ||
      static_cast<double>(mine->node) != node) {
    barrier(comm, Channel::evaluation);  // It ends with the error of the rank that has the node.
  }
  const Site& site = halo.site_of(static_cast<std::int64_t>(exchange));
  comm.set_progress({epoch, site.layer});
  throw_error(ErrorCode::numeric,
              "rows of {}, node {}: the row holds NaN or Inf, or spans more than the wire format "
              "holds: {}",
              site.name, static_cast<std::int64_t>(node), overflow_advice(epoch));
}

/// Throws Error(numeric) that names the first layer at fault on any rank, and its lowest node.
/// Collective. `mine`: what this rank found in rows of `shard`.
[[noreturn]] void refuse_non_finite(Communicator& comm, const char* what,
                                    std::optional<Network::NonFinite> mine, const Shard& shard,
                                    int epoch) {
  std::pair<double, double> first{kNowhere, kNowhere};
  if (mine) {
    first = {mine->layer,
             static_cast<double>(shard.global_ids[static_cast<std::size_t>(mine->row)])};
  }
  first = least_of_ranks(comm, first);
  const std::string where =
      first.first == kNowhere
          ? "every activation is finite, so it overflowed in the backward pass"
          : fmt::format("first in layer {} at node {}", static_cast<int>(first.first),
                        static_cast<std::int64_t>(first.second));
  throw_error(ErrorCode::numeric, "{} is NaN or Inf; {}: {}", what, where, overflow_advice(epoch));
}

}  // namespace

Trainer::Trainer(const RunPlan& plan, RankData data, Communicator& comm, MemoryAccount* account)
    : plan_(plan),
      comm_(comm),
      kernels_(make_kernels(plan.options(), comm, account)),
      device_account_(kernels_->device().memory()),
      account_(kernels_->device().on_host() ? account : &device_account_),
      batch_sum_(comm, times_, account),
      statistics_(comm, account) {
  const TrainOptions& options = plan.options();
  train_ = std::make_unique<RankGraph>(plan, std::move(data), comm, *kernels_, MemoryUse::graph,
                                       account, account_);
  if (options.inductive) {
    whole_ = std::make_unique<RankGraph>(
        plan, plan.load(comm.rank(), GraphScope::whole, MemoryUse::evaluation, account), comm,
        *kernels_, MemoryUse::evaluation, account, account_);
  }
  const std::int64_t rows = train_->op().rows();
  const std::int64_t most_rows = whole_ ? std::max(rows, whole_->op().rows()) : rows;
  const std::int64_t halo = train_->op().halo_rows();
  const std::int64_t most_halo = whole_ ? std::max(halo, whole_->op().halo_rows()) : halo;
  const std::int64_t backward_halo =
      train_->placed().shard().adjacency(Direction::backward).plan.halo_rows;
  model_ = std::make_unique<Network>(
      composed_model(options), train_->input(), plan.facts().classes, options.seed,
      PassRows{rows, most_rows, plan.blocks(), halo, most_halo, backward_halo, plan.covers()},
      *kernels_, account_);
  std::int64_t widest = 0;
  for (const Site& site : model_->sites()) widest = std::max(widest, site.cols);
  train_->reserve_sums(widest, account_);
  if (whole_) whole_->reserve_sums(widest, account_);
  evaluated().exact_halo().set_scratch(model_->idle_memory(), model_->sites());
  training_loss_.emplace(plan, *train_, *kernels_, account_);
  update_.emplace(options, model_->parameters(), comm, *kernels_, times_, account, account_);
  make_halo(plan.exchange());
}

void Trainer::make_halo(const ExchangeOptions& exchange) {
  const HostValues<const float> forward(train_->op().sum_scales(Direction::forward), device()),
      backward(train_->op().sum_scales(Direction::backward), device());
  const SumScales scales{forward.view(), backward.view()};
  halo_ = std::make_unique<StaleHalo>(
      comm_, train_->placed(), ExchangePolicy(exchange, plan_.options().epochs, model_->sites()),
      model_->sites(), plan_.blocks(), plan_.options().seed, times_, account_, &scales);
}

void Trainer::make_verifier() {
  if (plan_.options().verify_every == 0 || comm_.size() == 1) return;
  verifier_.emplace(plan_, comm_, train_->placed(), model_->parameters(), model_->sites(), *halo_,
                    account_);
}

void Trainer::set_exchange(const ExchangeOptions& exchange) {
  finish();
  const std::vector<std::int64_t> sent = halo_->sent();
  verifier_.reset();
  halo_.reset();  // Its memory is free before the new one's is needed.
  make_halo(exchange);
  halo_->set_sent(sent);
}

MemoryNeeds Trainer::memory_to_come() {
  MemoryNeeds needs;
  if (plan_.options().eval_every > 0) {
    needs[MemoryUse::evaluation] = evaluated().exact_halo().block_bytes(model_->sites());
  }
  add_later_exchanges(model_->sites(), model_->parameters(), plan_.options(), plan_.exchange(),
                      guards(plan_.options(), plan_.facts().task),
                      {1, train_->op().halo_rows(), plan_.blocks(), plan_.facts().directed}, needs);
  return needs;
}

bool Trainer::takes_cuda_graphs() const {
  const TransportOptions& transport = plan_.options().transport;
  if (transport.device != DeviceKind::cuda || transport.cuda_graphs == CudaGraphs::off) {
    return false;
  }
  return transport.cuda_graphs == CudaGraphs::on || model_->widest_bytes() <= kBytesReadInALaunch;
}

void Trainer::prepare() {
  make_verifier();
  if (comm_.size() == 1 || !comm_.sends_in_groups()) return;
  HostValues<float> weights(model_->parameters().flat_values(), device());
  const std::vector<std::int64_t> sent = halo_->sent();
  const std::vector<StaleHalo::SiteBits> bits = halo_->bits();
  // Attention has kernels for stale rows only, so the first epoch with such rows is rehearsed.
  int last = 0;
  for (int e = 1; e < plan_.options().epochs && last == 0; ++e) {
    if (halo_->policy().lag({e}) > 0) last = e;
  }
  comm_.rehearse(true);
  for (int e = std::max(0, last - 1); e <= last; ++e) run_epoch(e, [] { return RunRequests(); });
  if (plan_.options().eval_every > 0) {
    evaluated().exact_halo().keep_buffers();
    evaluate(last, plan_.options().keep_embeddings);
  }
  comm_.rehearse(false);
  comm_.set_progress({});
  weights.store();
  for (const std::span<float> moments :
       {optimizer().first_moments(), optimizer().second_moments()}) {
    HostValues<float> host(moments, device());
    std::ranges::fill(host.view(), 0.0F);
    host.store();
  }
  optimizer().set_steps(0);
  halo_->set_sent(sent);
  for (const StaleHalo::SiteBits& of : bits) halo_->set_bits(of.site, of.bits);
}

PassContext Trainer::pass_context(Halo& halo, PhaseClock& times, Clock clock) {
  RankSum* const batch_sum = comm_.size() > 1 ? &batch_sum_ : nullptr;
  return {*kernels_, halo, times, clock, plan_.options().seed, batch_sum};
}

Verification Trainer::verify(int epoch) {
  PhaseClock unused;
  if (!verifier_) make_verifier();  // The exchange has changed.
  return verifier_->verify({epoch}, [&](Halo& halo, RecordedSums* recorded) {
    PassContext pass = pass_context(halo, unused, {epoch});
    pass.recorded = recorded;
    const ConstMatrixView logits = model_->forward(pass, train_->op(), train_->input());
    std::vector<float> values = values_of(logits);
    training_loss_->loss_and_gradient(logits, model_->logit_gradient());
    model_->backward(
        pass, train_->op(), [](std::int64_t, std::int64_t) {}, [] {});
    return values;
  });
}

EpochEnd Trainer::run_epoch(int epoch, FunctionRef<RunRequests()> asks) {
  times_ = {};
  const Clock clock{epoch};
  const RankEpoch before = sent();
  const auto begin = WallClock::now();
  const RepeatedWork work(kernels_->device(), takes_cuda_graphs());

  halo_->begin_epoch(clock);
  const PassContext pass = pass_context(*halo_, on_host() ? times_ : asking_, clock);
  const ConstMatrixView logits = model_->forward(pass, train_->op(), train_->input());
  const double loss = training_loss_->loss_and_gradient(logits, model_->logit_gradient());
  const double lr = learning_rate(plan_.options().optimizer, epoch, plan_.options().epochs);
  update_->begin(lr, clock);
  model_->backward(
      pass, train_->op(),
      [&](std::int64_t first, std::int64_t last) { update_->complete(first, last); },
      [&] { update_->release(); });
  update_->finish();
  kernels_->device().finish();
  halo_->end_epoch();

  RankEpoch mine = sent();
  // A row that could not be encoded travelled all the same, so nothing after it counts.
  mine.loss = halo_->noted_row() ? std::numeric_limits<double>::quiet_NaN() : loss;
  mine.gradient_squares = update_->squares();
  mine.seconds = std::chrono::duration<double>(WallClock::now() - begin).count();
  mine.phases = times_;
  mine.halo_forward -= before.halo_forward;
  mine.halo_backward -= before.halo_backward;
  mine.allreduce_bytes -= before.allreduce_bytes;
  mine.fp32_bytes -= before.fp32_bytes;
  const RunRequests asked = asks();
  mine.stops = asked.stop ? 1 : 0;
  mine.saves = asked.save ? 1 : 0;
  mine.records = kernels_->device().can_record() ? 1 : 0;
  EpochEnd end = statistics_.combine(mine);
  const auto require_finite = [&](double value, const char* what) {
    if (std::isfinite(value)) return;
    refuse_noted_row(comm_, *halo_, epoch);
    refuse_non_finite(comm_, what, model_->find_non_finite(), train_->shard(), epoch);
  };
  require_finite(end.report.loss, "the loss");
  require_finite(end.gradient_squares, "a weight gradient");
  end.report.epoch = epoch;
  end.report.lag = halo_->lag();
  end.report.lr = lr;
  halo_->release();
  return end;
}

RankEpoch Trainer::sent() const {
  RankEpoch sent;
  sent.halo_forward = static_cast<double>(halo_->bytes_sent(Direction::forward));
  sent.halo_backward = static_cast<double>(halo_->bytes_sent(Direction::backward));
  sent.allreduce_bytes =
      static_cast<double>(comm_.bytes_sent(Channel::weights) + comm_.bytes_sent(Channel::moments));
  sent.fp32_bytes = static_cast<double>(halo_->fp32_bytes_sent());
  return sent;
}

Evaluation Trainer::evaluate(int epoch, bool embeds) {
  RankGraph& graph = evaluated();
  PhaseClock unused;
  graph.exact_halo().set_epoch(epoch);
  const PassContext pass{*kernels_, graph.exact_halo(), unused, {epoch}, plan_.options().seed};
  Evaluation evaluation;
  LocalOutputs& outputs = evaluation.outputs;
  if (embeds) outputs.embedding_cols = model_->embedding_cols();
  logits_ = HostCopy(
      model_->infer(pass, graph.op(), graph.input(), embeds ? &outputs.embeddings : nullptr),
      kernels_->device(), MemoryUse::evaluation, nullptr);
  outputs.logits = logits_.view();
  const auto bad = model_->find_non_finite(outputs.logits);
  std::int64_t ranks_at_fault = bad ? 1 : 0;
  AllReduce(comm_, Channel::evaluation).sum(std::span<std::int64_t>(&ranks_at_fault, 1));
  if (ranks_at_fault > 0) {
    refuse_non_finite(comm_, "an evaluated output", bad, graph.shard(), epoch);
  }
  evaluation.scores = distributed_scores(plan_.metric(), graph.labels(), outputs.logits, comm_);
  return evaluation;
}

}  // namespace heliograph
