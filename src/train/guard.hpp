#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "heliograph/log.hpp"
#include "heliograph/train.hpp"
#include "train/guard_state.hpp"
#include "train/plan/run_plan.hpp"
#include "train/trainer.hpp"

namespace heliograph {

/// Takes a run that has gone astray back to the last good weights, and makes its exchanges safer
/// (TrainOptions::guard, docs/guard.md). Every rank makes the same calls and gets the same answers.
/// The host must compute.
class Guard {
 public:
  /// `limit`: what the loss is without inputs. `log` may be empty. `account` counts the weights
  /// that are kept. The references must outlive the object.
  Guard(const RunPlan& plan, double limit, Trainer& trainer, GuardState& state, LogCallback log,
        MemoryAccount* account);

  /// Keeps the present weights if none are kept, after so many epochs. Call it before the next one.
  void begin(int epochs);
  /// Goes back if the epochs so far, of which there are so many, show that the run has gone astray.
  /// Collective. Throws Error: resource, peer_lost.
  std::optional<GuardAction> act(int epochs);
  /// Looks at an epoch that has run, and keeps its weights if they are good, unless nothing safer
  /// is left to go back for.
  void watch(const EpochReport& report);

 private:
  const ExchangeOptions& exchange(std::int64_t raised) const {
    return exchanges_[static_cast<std::size_t>(raised)];
  }
  bool is_safest() const { return state_.raised + 1 >= std::ssize(exchanges_); }
  double mean() const;  ///< Of the last losses.
  bool astray() const;
  void keep(int epochs, double mean);
  void count();
  void describe(int epochs) const;

  Trainer& trainer_;
  GuardState& state_;
  const double limit_;
  const std::vector<ExchangeOptions> exchanges_;
  LogCallback log_;
  CountedBytes bytes_;
};

}  // namespace heliograph
