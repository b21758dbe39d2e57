#include "train/optimizer.hpp"

#include <cmath>
#include <numbers>

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

Optimizer::Optimizer(const OptimizerOptions& options, const Parameters& parameters,
                     MemoryAccount* account)
    : options_(options) {
  const std::size_t bytes = static_cast<std::size_t>(parameters.flat_size()) * sizeof(float);
  m_ = Buffer(bytes, MemoryUse::weights, account);
  v_ = Buffer(bytes, MemoryUse::weights, account);
}

double Optimizer::gradient_norm(std::span<const float> f32, std::span<const double> f64) {
  double sum = 0;
  for (const float g : f32) sum += static_cast<double>(g) * g;
  for (const double g : f64) sum += g * g;
  return std::sqrt(sum);
}

void Optimizer::step(const Parameters& parameters, double lr, double norm, Kernels& kernels) {
  ++steps_;
  const double clip = options_.clip_norm;
  AdamStep s{};
  s.lr = static_cast<float>(lr);
  s.beta1 = static_cast<float>(kBeta1);
  s.beta2 = static_cast<float>(kBeta2);
  s.epsilon = static_cast<float>(kEpsilon);
  s.bias_correction1 = static_cast<float>(1 - std::pow(kBeta1, static_cast<double>(steps_)));
  s.bias_correction2 = static_cast<float>(1 - std::pow(kBeta2, static_cast<double>(steps_)));
  s.gradient_scale = clip > 0 && norm > clip ? static_cast<float>(clip / norm) : 1.0F;
  for (int i = 0; i < parameters.count(); ++i) {
    const float decay = parameters.decays(i) ? options_.weight_decay : 0.0F;
    const bool decoupled = options_.kind == OptimizerKind::adamw;
    s.weight_decay = decoupled ? 0.0F : decay;
    s.decoupled_decay = decoupled ? static_cast<float>(lr * static_cast<double>(decay)) : 0.0F;
    const std::int64_t at = parameters.offset(i);
    kernels.adam(parameters.value(i).data, parameters.gradient(i), m_.as<float>().data() + at,
                 v_.as<float>().data() + at, s);
  }
}

}  // namespace heliograph
