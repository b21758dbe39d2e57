#include "train/trainer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include "core/thread.hpp"
#include "heliograph/error.hpp"
#include "train/launch.hpp"

namespace heliograph {
namespace {

using WallClock = std::chrono::steady_clock;

int threads_of_a_rank(const TransportOptions& transport, int ranks) {
  if (transport.threads_per_rank > 0) return transport.threads_per_rank;
  return std::max(1, usable_cores() / ranks);
}

/// The kernels' threads keep to the CPUs of the rank's thread, which keeps to its own from now on.
std::unique_ptr<Kernels> make_kernels(const TrainOptions& options, const Communicator& comm,
                                      MemoryAccount* account) {
  const TransportOptions& transport = options.transport;
  const int threads = threads_of_a_rank(transport, comm.size());
  const bool crowded = comm.size() > usable_cores();
  if (transport.kind == TransportKind::threads && transport.pin != Pinning::off &&
      (transport.pin == Pinning::on || crowded)) {
    keep_to_share(comm.rank(), comm.size());
  }
  if (transport.device == DeviceKind::cuda) {
    return make_cuda_kernels(device_of_rank(transport, comm), threads, {options.tf32});
  }
  return make_cpu_kernels(threads, options.reproducible, account);
}

/// A device passes over so many bytes in about the time that a launch takes its host, 2 to 4 us: 8
/// MiB are 4.2 us at 2 TB/s, and 1.7 us at 4.8 TB/s.
constexpr std::int64_t kPassOfALaunch = std::int64_t{8} << 20;

/// The same work in every epoch is asked for as long as it lives, if `repeats`.
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

/// What a rank tells the others of its epoch.
struct Statistics {
  double seconds, aggregate, gemm, encode, exposed_comm, allreduce;
  double halo_forward, halo_backward, allreduce_bytes, fp32_bytes, stops, saves;
};
constexpr std::size_t kStatistics = sizeof(Statistics) / sizeof(double);

}  // namespace

Trainer::Trainer(const RunPlan& plan, RankData data, Communicator& comm, MemoryAccount* account)
    : plan_(plan),
      comm_(comm),
      kernels_(make_kernels(plan.options(), comm, account)),
      device_account_(kernels_->device().memory()),
      account_(kernels_->device().on_host() ? account : &device_account_),
      page_locked_(kernels_->device().page_locked()),
      weights_(comm, Channel::weights, account),
      statistics_(comm, Channel::evaluation, account),
      rank_statistics_(kStatistics * static_cast<std::size_t>(comm.size())),
      kept_(MemoryUse::evaluation, account) {
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
  model_ = std::make_unique<Model>(options.model, train_->input(), plan.facts().classes,
                                   options.seed, PassRows{rows, most_rows}, *kernels_, account_);
  (whole_ ? *whole_ : *train_).exact_halo().set_scratch(model_->idle_memory());
  optimizer_ = std::make_unique<Optimizer>(options.optimizer, model_->parameters(), account_);
  halo_ = std::make_unique<StaleHalo>(comm, train_->placed(),
                                      ExchangePolicy(options.exchange, options.epochs),
                                      model_->sites(), options.seed, times_, account_);
  if (!on_host()) {
    const auto values = static_cast<std::size_t>(model_->parameters().flat_size());
    gradients_ = Buffer(values * sizeof(float), MemoryUse::gradients, &page_locked_);
  }
}

bool Trainer::takes_cuda_graphs() const {
  const TransportOptions& transport = plan_.options().transport;
  if (transport.device != DeviceKind::cuda || transport.cuda_graphs == CudaGraphs::off) {
    return false;
  }
  return transport.cuda_graphs == CudaGraphs::on || model_->widest_bytes() <= kPassOfALaunch;
}

EpochEnd Trainer::run_epoch(int epoch, FunctionRef<RunRequests()> asks) {
  times_ = {};
  const Clock clock{epoch};
  const TrafficBytes before = traffic();
  const std::int64_t fp32_before = halo_->fp32_bytes_sent();
  const auto begin = WallClock::now();
  const RepeatedWork work(kernels_->device(), takes_cuda_graphs());

  halo_->begin_epoch(clock);
  const PassContext pass{*kernels_, *halo_, on_host() ? times_ : asking_, clock,
                         plan_.options().seed};
  const ConstMatrixView logits = model_->forward(pass, train_->op(), train_->input());
  loss_ = loss_and_gradient(logits);
  const Parameters& parameters = model_->parameters();
  {
    const PhaseTimer timer(times_.allreduce);
    weights_.begin(std::span<double>(&loss_, 1));
  }
  model_->backward(pass, train_->op(), [&](std::int64_t first, std::int64_t last) {
    if (!on_host()) return;  // Asked for, not there yet.
    const PhaseTimer timer(times_.allreduce);
    begin_sum(parameters.flat_gradients_f32(), first, last);
    begin_sum(parameters.flat_gradients_f64(), first, last);
  });
  sum_gradients();
  const double loss = loss_;
  if (!std::isfinite(loss)) refuse_non_finite(epoch, "the loss");
  const double norm = Optimizer::gradient_norm(gradients(), parameters.flat_gradients_f64());
  if (!std::isfinite(norm)) refuse_non_finite(epoch, "a weight gradient");
  const double lr = learning_rate(plan_.options().optimizer, epoch, plan_.options().epochs);
  optimizer_->step(parameters, lr, norm, *kernels_);
  kernels_->device().finish();

  const double seconds = std::chrono::duration<double>(WallClock::now() - begin).count();
  EpochEnd end = summarise(epoch, loss, seconds, lr, before, fp32_before, asks());
  halo_->release();
  return end;
}

std::span<const float> Trainer::gradients() const {
  return on_host() ? model_->parameters().flat_gradients_f32() : gradients_.as<float>();
}

/// Of all ranks; the backward pass has begun with those that the host computes.
void Trainer::sum_gradients() {
  const std::span<float> computed = model_->parameters().flat_gradients_f32();
  if (!on_host()) {
    kernels_->device().download(gradients_.data(), computed.data(), computed.size_bytes());
  }
  const PhaseTimer timer(times_.allreduce);
  if (!on_host()) weights_.begin(gradients_.as<float>());
  weights_.finish();
  if (!on_host() && comm_.size() > 1) {
    kernels_->device().upload(computed.data(), gradients_.data(), computed.size_bytes());
  }
}

template <class T>
void Trainer::begin_sum(std::span<T> gradients, std::int64_t begin, std::int64_t end) {
  if (gradients.empty()) return;
  weights_.begin(
      gradients.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
}

double Trainer::loss_and_gradient(ConstMatrixView logits) {
  const MatrixView gradient = model_->logit_gradient();
  const RunFacts& facts = plan_.facts();
  auto terms = static_cast<double>(facts.training_nodes);
  if (facts.task == Task::multiclass) {
    const double sum = kernels_->softmax_cross_entropy(logits, train_->target(),
                                                       static_cast<float>(1.0 / terms), gradient);
    return sum / terms;
  }
  terms *= facts.classes;
  const double sum = kernels_->binary_cross_entropy(logits, train_->indicators(), train_->mask(),
                                                    static_cast<float>(1.0 / terms), gradient);
  return sum / terms;
}

void Trainer::refuse_non_finite(int epoch, const char* what, std::optional<Model::NonFinite> mine,
                                const Shard& shard) {
  // The first layer at fault on any rank, and there the lowest node.
  constexpr auto kNone = std::numeric_limits<double>::max();
  std::vector<double> found(2 * static_cast<std::size_t>(comm_.size()), 0.0);
  const auto at = 2 * static_cast<std::size_t>(comm_.rank());
  found[at] = mine ? mine->layer : kNone;
  found[at + 1] =
      mine ? static_cast<double>(shard.global_ids[static_cast<std::size_t>(mine->row)]) : kNone;
  statistics_.sum(std::span<double>(found));
  std::pair<double, double> first{kNone, kNone};
  for (std::size_t i = 0; i < found.size(); i += 2) {
    first = std::min(first, {found[i], found[i + 1]});
  }
  std::string sentence = "epoch " + std::to_string(epoch) + ": " + what + " is NaN or Inf";
  if (first.first != kNone) {
    sentence += "; first in layer " + std::to_string(static_cast<int>(first.first)) + " at node " +
                std::to_string(static_cast<std::int64_t>(first.second));
  } else {
    sentence += "; every activation is finite, so it overflowed in the backward pass";
  }
  throw Error(ErrorCode::numeric, sentence);
}

TrafficBytes Trainer::traffic() const {
  return {halo_->bytes_sent(Direction::forward), halo_->bytes_sent(Direction::backward),
          comm_.bytes_sent(Channel::weights)};
}

EpochEnd Trainer::summarise(int epoch, double loss, double seconds, double lr,
                            const TrafficBytes& before, std::int64_t fp32_before,
                            RunRequests asked) {
  const TrafficBytes after = traffic();
  const Statistics mine{seconds,
                        times_.aggregate,
                        times_.gemm,
                        times_.encode,
                        times_.exposed_comm,
                        times_.allreduce,
                        static_cast<double>(after.halo_forward - before.halo_forward),
                        static_cast<double>(after.halo_backward - before.halo_backward),
                        static_cast<double>(after.allreduce - before.allreduce),
                        static_cast<double>(halo_->fp32_bytes_sent() - fp32_before),
                        asked.stop ? 1.0 : 0.0,
                        asked.save ? 1.0 : 0.0};
  std::fill(rank_statistics_.begin(), rank_statistics_.end(), 0.0);
  double* row = rank_statistics_.data();
  std::memcpy(row + kStatistics * static_cast<std::size_t>(comm_.rank()), &mine, sizeof(mine));
  statistics_.sum(std::span<double>(rank_statistics_));

  EpochEnd end;
  EpochReport& report = end.report;
  std::array<double, kStatistics> sums{};
  for (int r = 0; r < comm_.size(); ++r, row += kStatistics) {
    report.seconds = std::max(report.seconds, *row);
    for (std::size_t i = 0; i < kStatistics; ++i) sums[i] += row[i];
  }
  const auto sum = std::bit_cast<Statistics>(sums);
  const double ranks = comm_.size();
  const double parts = sum.aggregate + sum.gemm + sum.encode + sum.exposed_comm + sum.allreduce;
  report.parts = {sum.aggregate / ranks,    sum.gemm / ranks,      sum.encode / ranks,
                  sum.exposed_comm / ranks, sum.allreduce / ranks, report.seconds - parts / ranks};
  report.epoch = epoch;
  report.loss = loss;
  report.lr = lr;
  report.lag = halo_->lag();
  report.bytes = {static_cast<std::int64_t>(sum.halo_forward),
                  static_cast<std::int64_t>(sum.halo_backward),
                  static_cast<std::int64_t>(sum.allreduce_bytes)};
  report.fp32_bytes = static_cast<std::int64_t>(sum.fp32_bytes);
  end.asked = {sum.stops != 0, sum.saves != 0};
  return end;
}

Scores Trainer::evaluate(int epoch) {
  RankGraph& graph = whole_ ? *whole_ : *train_;
  PhaseClock unused;
  graph.exact_halo().set_epoch(epoch);
  const PassContext pass{*kernels_, graph.exact_halo(), unused, {epoch}, plan_.options().seed};
  const ConstMatrixView logits = model_->infer(pass, graph.op(), graph.input());
  logits_copy_ = HostCopy(logits, kernels_->device(), MemoryUse::evaluation, nullptr);
  logits_ = logits_copy_.view();
  const auto bad = model_->find_non_finite(logits_);
  if (any_rank(bad.has_value())) {
    refuse_non_finite(epoch, "an evaluated output", bad, graph.shard());
  }
  return distributed_scores(plan_.metric(), graph.labels(), logits_, comm_);
}

void Trainer::keep_predictions() {
  const LocalLabels& labels = (whole_ ? *whole_ : *train_).labels();
  kept_predictions_.clear();
  kept_scores_.clear();
  const auto rows = static_cast<std::size_t>(logits_.rows);
  const std::size_t cols =
      labels.task == Task::multiclass ? 1 : static_cast<std::size_t>(labels.classes);
  kept_predictions_.reserve(rows * cols);
  if (plan_.metric() == Metric::auc) kept_scores_.reserve(rows);
  for (std::int64_t r = 0; r < logits_.rows; ++r) {
    const float* z = logits_.row(r);
    if (labels.task == Task::multiclass) {
      kept_predictions_.push_back(predicted_class(z, labels.classes));
    } else {
      for (std::int32_t c = 0; c < labels.classes; ++c) kept_predictions_.push_back(z[c] > 0);
    }
    if (plan_.metric() == Metric::auc)
      kept_scores_.push_back(1.0F / (1.0F + std::exp(z[0] - z[1])));
  }
  kept_.set(static_cast<std::int64_t>(kept_predictions_.capacity() * sizeof(std::int32_t) +
                                      kept_scores_.capacity() * sizeof(float)));
}

void Trainer::collect_predictions(TrainResult& result) {
  const auto gather = [&](const auto& values) {
    return gather_to_root(comm_, Channel::evaluation, std::as_bytes(std::span(values)));
  };
  const auto ids = gather((whole_ ? *whole_ : *train_).shard().global_ids);
  const auto predictions = gather(kept_predictions_);
  const auto scores = gather(kept_scores_);
  if (comm_.rank() != 0) return;
  const RunFacts& facts = plan_.facts();
  result.prediction_cols = facts.task == Task::multiclass ? 1 : facts.classes;
  const auto nodes = static_cast<std::size_t>(facts.nodes);
  const auto cols = static_cast<std::size_t>(result.prediction_cols);
  if (!predictions.empty()) result.predictions.resize(nodes * cols);
  if (!scores.empty()) result.scores.resize(nodes);
  for (std::size_t row = 0; row < ids.size() / sizeof(std::int64_t); ++row) {
    std::int64_t id;
    std::memcpy(&id, ids.data() + row * sizeof(id), sizeof(id));
    const auto to = static_cast<std::size_t>(id);
    if (!predictions.empty()) {
      std::memcpy(result.predictions.data() + to * cols,
                  predictions.data() + row * cols * sizeof(std::int32_t),
                  cols * sizeof(std::int32_t));
    }
    if (!scores.empty()) {
      std::memcpy(result.scores.data() + to, scores.data() + row * sizeof(float), sizeof(float));
    }
  }
}

void Trainer::collect_traffic(TrainResult& result) {
  const std::vector<LinkTraffic> mine = halo_->traffic();
  const auto all =
      gather_to_root(comm_, Channel::evaluation, std::as_bytes(std::span<const LinkTraffic>(mine)));
  if (comm_.rank() != 0) return;
  for (const Site& site : model_->sites()) {
    result.sites.push_back({site.name, site.layer, site.direction == Direction::backward});
  }
  if (all.empty()) return;
  result.halo_traffic.resize(all.size() / sizeof(LinkTraffic));
  std::memcpy(result.halo_traffic.data(), all.data(), all.size());
}

bool Trainer::any_rank(bool flag) {
  std::int64_t sum = flag ? 1 : 0;
  statistics_.sum(std::span<std::int64_t>(&sum, 1));
  return sum != 0;
}

}  // namespace heliograph
