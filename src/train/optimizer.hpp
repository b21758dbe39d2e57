#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.hpp"
#include "core/kernels.hpp"
#include "heliograph/options.hpp"
#include "layers/parameters.hpp"

namespace heliograph {

/// The learning rate of an epoch of `epochs`; the first epoch is 0.
double learning_rate(const OptimizerOptions& options, int epoch, int epochs);

/// Adam or AdamW, with clipping by the global gradient norm, for the share of the parameters that
/// one rank owns. The state of each value lies on its owner only, as in ZeRO's first stage
/// (Rajbhandari et al. 2020).
class Optimizer {
 public:
  /// A range of the flat parameters, padding included.
  struct Range {
    std::int64_t begin, end;
    bool operator==(const Range&) const = default;
  };

  /// For rank `rank` of the `ranks` that share the parameters. `account` counts the state, where
  /// kernels read it.
  Optimizer(const OptimizerOptions& options, const Parameters& parameters, int rank, int ranks,
            MemoryAccount* account);

  /// The part of a range that this rank owns.
  Range owned(Range range) const;
  bool clips() const { return options_.clip_norm > 0; }

  /// Begins a step.
  void begin_step(double lr);
  /// Scales gradients from now on, if `norm`, the norm of all ranks' gradients, is too large.
  void clip(double norm);
  /// Updates the owned part of a range with its gradients. Every step updates the same ranges in
  /// the same order, which together cover the parameters once. Throws Error(mismatch) if those of
  /// `resume` are others.
  void update(const Parameters& parameters, Range range, Kernels& kernels);

  /// The ranges of the first step, in order.
  std::span<const Range> ranges() const { return ranges_; }
  /// Running means of gradients and of their squares, of the owned part of one range after the
  /// other and where kernels read them.
  std::span<float> first_moments() const { return moments(m_); }
  std::span<float> second_moments() const { return moments(v_); }
  /// Makes the next step the one after `steps`; 0: the first. The caller sets the moments before.
  void set_steps(std::int64_t steps);
  /// Makes ranges and number of steps those of a run that is resumed, which then sets the moments.
  /// Returns false and changes nothing unless the ranges cover the parameters once.
  bool resume(std::int64_t steps, std::vector<Range> ranges);

 private:
  std::int64_t capacity() const;  ///< How many values have room for their state.
  std::span<float> moments(const Buffer& buffer) const;

  OptimizerOptions options_;
  std::int64_t parameters_;  ///< The size of the flat parameters.
  int rank_, ranks_count_;
  Buffer m_, v_;
  std::vector<Range> ranges_;
  std::size_t next_range_ = 0;
  std::int64_t next_moment_ = 0;  ///< Where the moments of the next range begin.
  AdamStep step_{};
  double lr_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace heliograph
