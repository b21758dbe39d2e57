#pragma once

#include <cstdint>
#include <span>

#include "core/buffer.hpp"
#include "core/kernels.hpp"
#include "heliograph/options.hpp"
#include "layers/parameters.hpp"

namespace heliograph {

/// The learning rate of an epoch of `epochs`; the first epoch is 0.
double learning_rate(const OptimizerOptions& options, int epoch, int epochs);

/// Adam or AdamW, with clipping by the global gradient norm. All ranks hold the same gradients and
/// so take the same step.
class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, const Parameters& parameters, MemoryAccount* account);

  /// Euclidean norm of all gradients; one of the two spans is empty. NaN or Inf if a gradient is.
  static double gradient_norm(std::span<const float> f32, std::span<const double> f64);

  /// Updates the parameters with their gradients. `norm`: what `gradient_norm` returned for these.
  void step(const Parameters& parameters, double lr, double norm, Kernels& kernels);

  /// Running means of gradients and of their squares, laid out as the flat parameters and where
  /// kernels read them, and the number of steps taken. A resumed run sets all three.
  std::span<float> first_moments() const { return m_.as<float>(); }
  std::span<float> second_moments() const { return v_.as<float>(); }
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  OptimizerOptions options_;
  Buffer m_, v_;
  std::int64_t steps_ = 0;
};

}  // namespace heliograph
