#include "train/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <utility>

#include "comm/collectives.hpp"
#include "core/throw_error.hpp"
#include "layers/network.hpp"

namespace heliograph {
namespace {

constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kEpsilon = 1e-8;

}  // namespace

double learning_rate(const OptimizerOptions& options, int epoch, int epochs) {
  const double lr = options.lr;
  const int warmup = options.lr_warmup;
  if (epoch < warmup) return lr * (epoch + 1) / warmup;
  epoch -= warmup;
  epochs -= warmup;
  switch (options.schedule) {
    case Schedule::cosine:
      return lr * 0.5 * (1 + std::cos(std::numbers::pi * epoch / epochs));
    case Schedule::step:
      return lr * std::pow(static_cast<double>(options.step_gamma), epoch / options.step_size);
    case Schedule::constant:
      break;
  }
  return lr;
}

Optimizer::Optimizer(const OptimizerOptions& options, const Parameters& parameters, int rank,
                     int ranks, MemoryAccount* account)
    : options_(options), parameters_(parameters.flat_size()), rank_(rank), ranks_count_(ranks) {
  // Each range that ranks share may give a rank one value more than its share. Such a range has
  // Network::kFewestAnnounced values or ends with a parameter.
  const std::int64_t ranges = parameters.count() + parameters_ / Network::kFewestAnnounced;
  const std::int64_t most = ranks == 1 ? parameters_ : parameters_ / ranks + ranges;
  const auto bytes = static_cast<std::size_t>(std::min(most, parameters_)) * sizeof(float);
  m_ = Buffer(bytes, MemoryUse::weights, account);
  v_ = Buffer(bytes, MemoryUse::weights, account);
}

void Optimizer::begin_step(double lr) {
  next_range_ = 0;
  next_moment_ = 0;
  lr_ = lr;
  ++steps_;
  step_ = {};
  step_.lr = static_cast<float>(lr);
  step_.beta1 = static_cast<float>(kBeta1);
  step_.beta2 = static_cast<float>(kBeta2);
  step_.epsilon = static_cast<float>(kEpsilon);
  step_.bias_correction1 = static_cast<float>(1 - std::pow(kBeta1, static_cast<double>(steps_)));
  step_.bias_correction2 = static_cast<float>(1 - std::pow(kBeta2, static_cast<double>(steps_)));
  step_.gradient_scale = 1.0F;
}

void Optimizer::clip(double norm) {
  const double most = options_.clip_norm;
  if (clips() && norm > most) step_.gradient_scale = static_cast<float>(most / norm);
}

Optimizer::Range Optimizer::owned(Range range) const {
  const auto [begin, end] =
      AllReduce::block(static_cast<std::size_t>(range.end - range.begin), rank_, ranks_count_);
  return {range.begin + static_cast<std::int64_t>(begin),
          range.begin + static_cast<std::int64_t>(end)};
}

void Optimizer::update(const Parameters& parameters, Range all, Kernels& kernels) {
  if (steps_ == 1) ranges_.push_back(all);
  if (next_range_ >= ranges_.size() || ranges_[next_range_] != all) {
    throw_error(ErrorCode::mismatch,
                "the checkpoint's optimizer state is of another version of the program, which "
                "updated parameters {} to {} otherwise: begin a new run with --init-from",
                all.begin, all.end);
  }
  const Range range = owned(all);
  if (next_moment_ + range.end - range.begin > capacity()) {
    throw std::logic_error("a step has more ranges of parameters than the optimizer has room for");
  }
  for (int i = 0; i < parameters.count(); ++i) {
    const std::int64_t at = parameters.offset(i);
    const std::int64_t begin = std::max(at, range.begin);
    const std::int64_t end = std::min(parameters.offset(i + 1), range.end);
    if (begin >= end) continue;
    const float decay = parameters.decays(i) ? options_.weight_decay : 0.0F;
    const bool decoupled = options_.kind == OptimizerKind::adamw;
    step_.weight_decay = decoupled ? 0.0F : decay;
    step_.decoupled_decay = decoupled ? static_cast<float>(lr_ * static_cast<double>(decay)) : 0.0F;
    GradientView gradient = parameters.gradient(i);
    if (gradient.f32 != nullptr) gradient.f32 += begin - at;
    if (gradient.f64 != nullptr) gradient.f64 += begin - at;
    gradient.rows = 1;
    gradient.cols = end - begin;
    const std::int64_t moment = next_moment_ + begin - range.begin;
    kernels.adam(parameters.flat_values().data() + begin, gradient, m_.as<float>().data() + moment,
                 v_.as<float>().data() + moment, step_);
  }
  ++next_range_;
  next_moment_ += range.end - range.begin;
}

std::int64_t Optimizer::capacity() const {
  return static_cast<std::int64_t>(m_.size() / sizeof(float));
}

std::span<float> Optimizer::moments(const Buffer& buffer) const {
  std::int64_t values = 0;
  for (const Range& range : ranges_) values += owned(range).end - owned(range).begin;
  return buffer.as<float>().first(static_cast<std::size_t>(values));
}

void Optimizer::set_steps(std::int64_t steps) {
  steps_ = steps;
  if (steps == 0) ranges_.clear();  // The first step says which they are.
}

bool Optimizer::resume(std::int64_t steps, std::vector<Range> ranges) {
  std::vector<Range> sorted = ranges;
  std::ranges::sort(sorted, {}, &Range::begin);
  std::int64_t covered = 0, mine = 0;
  for (const Range& range : sorted) {
    if (range.begin != covered || range.end <= range.begin) return false;
    covered = range.end;
    mine += owned(range).end - owned(range).begin;
  }
  if (covered != parameters_ || mine > capacity()) return false;
  steps_ = steps;
  ranges_ = std::move(ranges);
  return true;
}

}  // namespace heliograph
