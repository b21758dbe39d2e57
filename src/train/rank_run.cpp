#include "train/rank_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "core/plural.hpp"
#include "core/throw_error.hpp"
#include "layers/compose.hpp"
#include "staleness/exchange_policy.hpp"
#include "train/checkpoint/model_file.hpp"
#include "train/checkpoint/trainer_state.hpp"
#include "train/exchange_advice.hpp"
#include "train/gather_values.hpp"
#include "train/plan/derived_exchanges.hpp"
#include "train/run/output_file.hpp"
#include "train/training_loss.hpp"

namespace heliograph {
namespace {

/// Epochs after which a run should have learned something.
constexpr int kEpochsToLearn = 20;

std::optional<double> known(double score) {
  return std::isnan(score) ? std::nullopt : std::optional<double>(score);
}

/// Sets the means over epochs.
void average_bytes(TrainResult& result) {
  const auto epochs = static_cast<std::int64_t>(result.epochs.size());
  if (epochs == 0) return;
  TrafficBytes& mean = result.bytes_per_epoch;
  for (const EpochReport& report : result.epochs) {
    mean.halo_forward += report.bytes.halo_forward;
    mean.halo_backward += report.bytes.halo_backward;
    mean.allreduce += report.bytes.allreduce;
    result.fp32_bytes_per_epoch += report.fp32_bytes;
  }
  for (std::int64_t* bytes :
       {&mean.halo_forward, &mean.halo_backward, &mean.allreduce, &result.fp32_bytes_per_epoch}) {
    *bytes /= epochs;
  }
}

}  // namespace

RankRun::RankRun(const RunPlan& plan, RankData data, Communicator& comm,
                 const TrainCallbacks& callbacks, MemoryAccount& account)
    : plan_(plan),
      options_(plan.options()),
      comm_(comm),
      callbacks_(callbacks),
      trainer_(plan, std::move(data), comm, &account),
      checkpoints_(plan, comm, trainer_, callbacks.before_saving, callbacks.log),
      state_(options_.patience, plan.metric(), comm),
      limit_(loss_without_inputs(plan)),
      best_bytes_(MemoryUse::evaluation, &account),
      stop_sum_(comm, Channel::evaluation, &account) {
  const LogCallback log = is_root() ? callbacks.log : LogCallback();
  const auto only = plan.facts().only_training_class();
  if (only && plan.facts().classes > 1 && log) {
    log(LogLevel::warning,
        fmt::format("'{}': every training node has {}, so there is nothing to learn: check the "
                    "split",
                    plan.facts().name, plan.facts().class_text(*only)));
  }
  if (guards(options_, plan.facts().task)) {
    guard_.emplace(plan, limit_.value(), trainer_, state_.guard, log, &account);
  } else if (options_.guard && !limit_ && log) {
    log(LogLevel::warning,
        spell_options("--guard has no effect: what the loss would be without inputs is unknown "
                      "for several labels a node, and for regression with --init-from"));
  }
  if (bits_follow_trend(options_.exchange.bits_policy) && comm.size() > 1 &&
      exchanges_rows(options_)) {
    state_.trend.emplace(plan.exchange(), fewest_bits(options_.model));
  }
  if (log && comm.size() > 1) {
    log_exchange_advice(options_, trainer_.halo(), trainer_.model().sites(), log);
  }
}

void RankRun::prepare() {
  const Uncounted uncounted(state_.evaluation_bytes);
  trainer_.prepare();
}

void RankRun::begin_with(const Model& weights) {
  set_weights(weights, options_.init_from.string(), trainer_);
}

void RankRun::resume(const CheckpointManifest& manifest) {
  restore_run(manifest, options_.checkpoint.resume, comm_, trainer_, state_);
  count_best_model();
  if (is_root() && callbacks_.log) {
    const std::string epochs = counted(state_.epochs, "epoch");
    if (state_.best.exhausted()) {
      callbacks_.log(LogLevel::warning,
                     fmt::format("the run has ended after {}{}", epochs,
                                 spell_options(", by --patience; a larger one goes on")));
    } else if (state_.epochs < options_.epochs) {
      callbacks_.log(LogLevel::info, fmt::format("continuing after {}, from {}", epochs,
                                                 options_.checkpoint.resume.string()));
    } else {
      callbacks_.log(LogLevel::warning,
                     fmt::format("the run has had its {}{}", epochs,
                                 options_.optimizer.schedule == Schedule::cosine
                                     ? "; its learning rate has ended too"
                                     : spell_options("; a larger --epochs goes on")));
    }
  }
  // Without a further epoch, nothing else would save a checkpoint of this run's own.
  if (has_ended() && resumed_elsewhere()) checkpoints_.save(state_, false);
  // The checkpoint of the last epoch may lack an evaluation; see run_epochs.
  if (state_.epochs == options_.epochs && due_only_at_end()) evaluate(state_.reports.back());
  if (is_root() && callbacks_.on_resume) callbacks_.on_resume(state_.reports);
}

std::string RankRun::run_epochs() {
  if (is_root()) {
    state_.reports.reserve(static_cast<std::size_t>(std::min(options_.epochs, 1 << 16)));
  }
  // What other ranks still do before their first epoch may wait for devices.
  if (comm_.sends_in_groups()) undisturbed([] {});
  if (guard_) guard_->begin(state_.epochs);
  while (!has_ended()) {
    const std::optional<GuardAction> action = guard_ ? guard_->act(state_.epochs) : std::nullopt;
    if (action) state_.best.forgive();
    const std::optional<TrendAction> trend = follow_trend();
    std::optional<Verification> verified = verify_if_due();
    EpochEnd end = trainer_.run_epoch(state_.epochs, [this] { return take_requests(); });
    EpochReport& report = end.report;
    report.verification = std::move(verified);
    ++state_.epochs;
    report.guard = action;
    report.trend = trend;
    if (guard_) guard_->watch(report);
    if (state_.trend) state_.trend->watch(report.loss);
    if (end.records) undisturbed([this] { trainer_.device().record(); });
    const bool last = state_.epochs == options_.epochs;
    // A stopped run that can be resumed must not lack the scores of its last epoch.
    const bool evaluates = !end.asked.stop || checkpoints_.enabled();
    if (evaluates && evaluation_due()) evaluate(report);
    if (is_root()) {
      state_.reports.push_back(report);
      warn_if_nothing_is_learned(report.loss);
    }
    // An evaluation that is due only because the run ends is no part of the checkpoint: a run
    // that resumes it with more epochs does without.
    std::optional<RunState> unscored;
    const std::int64_t unscored_bytes = state_.evaluation_bytes.count();
    if (evaluates && last && due_only_at_end()) {
      if (checkpoints_.enabled()) unscored.emplace(state_);
      evaluate(report);
      if (is_root()) state_.reports.back() = report;
    }
    const bool stops = report_epoch(report) || end.asked.stop;
    const bool ends = stops || last || state_.best.exhausted();
    if (checkpoints_.due(state_.epochs, stops || end.asked.save, ends)) {
      const std::int64_t evaluation_bytes = state_.evaluation_bytes.count();
      if (unscored) unscored->evaluation_bytes.set(unscored_bytes);
      const bool saved = checkpoints_.save(unscored ? *unscored : state_, stops);
      if (saved && end.asked.save && is_root() && callbacks_.log) {
        callbacks_.log(LogLevel::info, fmt::format("saved the checkpoint after {}",
                                                   counted(state_.epochs, "epoch")));
      }
      state_.evaluation_bytes.set(evaluation_bytes);
    }
    if (stops) return "interrupted";
  }
  return state_.best.exhausted() ? "early_stopping" : "completed";
}

std::optional<TrendAction> RankRun::follow_trend() {
  if (!state_.trend) return std::nullopt;
  const std::optional<ExchangeOptions> next = state_.trend->act(state_.epochs);
  if (!next) return std::nullopt;
  trainer_.set_exchange(*next);
  return TrendAction{next->bits_forward, next->bits_backward, next->staleness};
}

void RankRun::collect(TrainResult& result) {
  trainer_.finish();
  const std::int64_t evaluation_bytes = state_.evaluation_bytes.count();
  Outputs outputs = outputs_at_best_epoch();
  const std::vector<LinkTraffic> sent = trainer_.halo().traffic();
  std::vector<LinkTraffic> traffic = gather_values(comm_, std::span(sent));
  std::array<std::int64_t, 2> sums{evaluation_bytes, trainer_.takes_cuda_graphs() ? 1 : 0};
  AllReduce(comm_, Channel::evaluation).sum(std::span<std::int64_t>(sums));
  std::vector<double> bits;
  for (const Site& site : trainer_.model().sites()) {
    const std::array<double, 2> of = trainer_.halo().bits_sent(site);
    bits.insert(bits.end(), of.begin(), of.end());
  }
  AllReduce(comm_, Channel::evaluation).sum(std::span<double>(bits));
  if (!is_root()) return;
  result.epochs = std::move(state_.reports);
  average_bytes(result);
  result.best_epoch = state_.best.epoch();
  result.val_metric = state_.best.scores().validation;
  result.test_metric = state_.best.scores().test;
  static_cast<Outputs&>(result) = std::move(outputs);
  result.model = std::move(state_.best_model);
  for (const Site& site : trainer_.model().sites()) {
    const std::size_t at = 2 * result.sites.size();
    result.sites.push_back({site.name, site.layer, site.direction == Direction::backward,
                            trainer_.halo().policy().late(site),
                            bits[at + 1] > 0 ? bits[at] / bits[at + 1] : 0});
  }
  result.kept_columns = keeps_columns();
  result.halo_traffic = std::move(traffic);
  result.evaluation_bytes = sums[0];
  result.cuda_graph_ranks = static_cast<int>(sums[1]);
  result.parameters = trainer_.model().parameters().weights();
}

bool RankRun::resumed_elsewhere() {
  const Uncounted uncounted(state_.evaluation_bytes);
  return checkpoints_.resumed_elsewhere();
}

bool RankRun::keeps_columns() {
  return comm_.size() > 1 && trainer_.halo().policy().keeps_columns(trainer_.model().sites());
}

// Once, after a tenth of the epochs.
void RankRun::warn_if_nothing_is_learned(double loss) const {
  if (!callbacks_.log || !limit_ || !(loss >= *limit_)) return;
  if (state_.epochs != std::max(kEpochsToLearn, options_.epochs / 10)) return;
  const ModelOptions& model = options_.model;
  const bool drops = model.dropout > 0 || model.input_dropout.value_or(0) > 0;
  std::string advice = drops ? "a smaller --dropout or " : "";
  if (model.kind == ModelKind::dagnn) {  // Large inputs close the gates, and these stay closed.
    advice += options_.normalize == Normalization::row ? "a larger --lr"
                                                       : "--normalize row with a larger --lr";
  } else {
    advice += "a smaller --lr";
    if (model.layers > 1) advice += " or fewer --layers";
    if (options_.normalize == Normalization::none) advice += " or --normalize row";
  }
  callbacks_.log(
      LogLevel::warning,
      fmt::format("after {} the training loss{} is {:.4f}, and ignoring features and graph gives "
                  "{:.4f}: {} may help it to learn",
                  counted(state_.epochs, "epoch"), drops ? " with dropout" : "", loss, *limit_,
                  spell_options(advice)));
}

RunRequests RankRun::take_requests() const {
  return {stop_asked(), callbacks_.save != nullptr && callbacks_.save->exchange(false)};
}

bool RankRun::report_epoch(const EpochReport& report) {
  bool stops = false;
  if (is_root() && callbacks_.on_epoch) stops = callbacks_.on_epoch(report) == EpochAction::stop;
  stopping_ranks_ = stops || stop_asked() ? 1 : 0;
  const Uncounted uncounted(state_.evaluation_bytes);
  stop_sum_.sum(std::span(&stopping_ranks_, 1));
  return stopping_ranks_ > 0;
}

void RankRun::undisturbed(FunctionRef<void()> work) {
  const Uncounted uncounted(state_.evaluation_bytes);
  trainer_.finish();
  barrier(comm_, Channel::evaluation);
  work();
  barrier(comm_, Channel::evaluation);
}

std::optional<Verification> RankRun::verify_if_due() {
  const int every = options_.verify_every;
  if (every == 0 || comm_.size() == 1 || (state_.epochs + 1) % every != 0) return std::nullopt;
  const Uncounted uncounted(state_.evaluation_bytes);
  return trainer_.verify(state_.epochs);
}

void RankRun::evaluate(EpochReport& report) {
  const Scores scores = trainer_.evaluate(report.epoch).scores;
  if (state_.best.improves(report.epoch, scores)) {
    Model& best = state_.best_model;
    if (best.tensors.empty()) best = make_model(plan_, trainer_, report.epoch);
    copy_weights(trainer_, best);
    best.epoch = report.epoch;
    best.train_metric = scores.train;
    best.val_metric = scores.validation;
    best.test_metric = scores.test;
    count_best_model();
  }
  report.train_metric = known(scores.train);
  report.val_metric = known(scores.validation);
  report.test_metric = known(scores.test);
}

void RankRun::count_best_model() {
  std::int64_t values = 0;
  for (const Tensor& t : state_.best_model.tensors) {
    values += static_cast<std::int64_t>(t.values.size());
  }
  best_bytes_.set(values * static_cast<std::int64_t>(sizeof(float)));
}

Outputs RankRun::outputs_at_best_epoch() {
  if (state_.best.epoch() < 0) {
    state_.best_model = make_model(plan_, trainer_, state_.epochs - 1);
    return {};
  }
  set_weights(state_.best_model, kBestFile, trainer_);
  const LocalOutputs mine = trainer_.evaluate(state_.epochs - 1, options_.keep_embeddings).outputs;
  const RankGraph& graph = trainer_.evaluated();
  return gather_outputs(mine, graph.labels(), plan_.metric(), options_.keep_logits,
                        graph.shard().global_ids, plan_.facts().nodes, comm_);
}

}  // namespace heliograph
