#include "train/guard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "core/plural.hpp"
#include "core/throw_error.hpp"
#include "train/plan/derived_exchanges.hpp"

namespace heliograph {
namespace {

/// The first epochs of a run, and those after it has gone back, may well be worse than later ones.
constexpr int kPatience = 20;
/// Losses of runs that learn rose by less than this share in experiments (docs/guard.md).
constexpr double kRise = 0.1;
/// Good weights are kept after every so many epochs.
constexpr int kKeepEvery = 10;

std::string without_lag_at(const ExchangeOptions& exchange) {
  std::string text = "without lag at " + counted(bit_count(exchange.bits_forward), "bit");
  if (exchange.bits_backward != exchange.bits_forward) {
    text += fmt::format(" forward and {} backward", bit_count(exchange.bits_backward));
  }
  return text;
}

}  // namespace

Guard::Guard(const RunPlan& plan, double limit, Trainer& trainer, GuardState& state,
             LogCallback log, MemoryAccount* account)
    : trainer_(trainer),
      state_(state),
      limit_(limit),
      exchanges_(raised_exchanges(plan.exchange())),
      log_(std::move(log)),
      bytes_(MemoryUse::weights, account) {}

void Guard::begin(int epochs) {
  if (state_.raised > 0 && log_) {
    log_(LogLevel::info,
         fmt::format("{} has gone back {}, so the run goes on {}", spell_options("--guard"),
                     counted(state_.raised, "time"), without_lag_at(exchange(state_.raised))));
  }
  if (state_.kept) return count();
  keep(epochs, std::numeric_limits<double>::infinity());
}

void Guard::watch(const EpochReport& report) {
  if (is_safest()) return;
  state_.losses[static_cast<std::size_t>(report.epoch % GuardState::kWindow)] = report.loss;
  if (++state_.watched < GuardState::kWindow) return;
  const double now = mean();
  state_.lowest = std::min(state_.lowest, now);
  // Early weights that lag has made are no good start (docs/guard.md).
  const bool late = exchange(state_.raised).staleness > 0;
  const bool good = now == state_.lowest && now < state_.kept->mean && (!late || now < limit_);
  const int epochs = report.epoch + 1;
  if (good && epochs % kKeepEvery == 0) keep(epochs, now);
}

double Guard::mean() const {
  return std::accumulate(state_.losses.begin(), state_.losses.end(), 0.0) / GuardState::kWindow;
}

bool Guard::astray() const {
  return !is_safest() && state_.watched >= kPatience && mean() >= limit_ &&
         mean() > (1 + kRise) * state_.lowest;
}

std::optional<GuardAction> Guard::act(int epochs) {
  if (!astray()) return std::nullopt;
  describe(epochs);
  const KeptStep& kept = *state_.kept;
  Optimizer& optimizer = trainer_.optimizer();
  std::ranges::copy(kept.values, trainer_.model().parameters().flat_values().begin());
  const auto restore = [](const std::vector<float>& from, std::span<float> to) {
    std::ranges::fill(std::ranges::copy(from, to.begin()).out, to.end(), 0.0F);
  };
  restore(kept.first_moments, optimizer.first_moments());
  restore(kept.second_moments, optimizer.second_moments());
  optimizer.set_steps(kept.steps);
  state_.undone = epochs - kept.steps;
  state_.watched = 0;
  state_.lowest = std::numeric_limits<double>::infinity();
  ++state_.raised;
  const ExchangeOptions& now = exchange(state_.raised);
  trainer_.set_exchange(now);
  return GuardAction{static_cast<int>(kept.epochs), now.bits_forward, now.bits_backward};
}

void Guard::keep(int epochs, double mean) {
  if (!state_.kept) state_.kept.emplace();
  KeptStep& kept = *state_.kept;
  const auto copy = [](std::span<const float> from, std::vector<float>& to) {
    to.assign(from.begin(), from.end());
  };
  kept.epochs = epochs;
  kept.steps = epochs - state_.undone;
  kept.mean = mean;
  copy(trainer_.model().parameters().flat_values(), kept.values);
  copy(trainer_.optimizer().first_moments(), kept.first_moments);
  copy(trainer_.optimizer().second_moments(), kept.second_moments);
  count();
}

void Guard::count() {
  const KeptStep& kept = *state_.kept;
  bytes_.set(static_cast<std::int64_t>(
      (kept.values.size() + kept.first_moments.size() + kept.second_moments.size()) *
      sizeof(float)));
}

void Guard::describe(int epochs) const {
  if (!log_) return;
  const std::string to = state_.kept->epochs == 0
                             ? "its first weights"
                             : "the weights after " + counted(state_.kept->epochs, "epoch");
  log_(LogLevel::warning,
       fmt::format("the run has gone astray: the mean training loss of {} epochs, {:.4f}, has been "
                   "{:.4f} and is no better than {:.4f}, which ignoring features and graph gives; "
                   "after {} {} goes back to {} and on {}",
                   GuardState::kWindow, mean(), state_.lowest, limit_, counted(epochs, "epoch"),
                   spell_options("--guard"), to, without_lag_at(exchange(state_.raised + 1))));
}

}  // namespace heliograph
