#pragma once

#include <cmath>
#include <limits>

#include "train/metrics/scores.hpp"

namespace heliograph {

/// The best epoch by validation score, and whether patience has run out.
class BestEpoch {
 public:
  BestEpoch(int patience, Metric metric) : patience_(patience), metric_(metric) {}

  /// True if `scores`, those of `epoch`, are the best so far. Until a validation score is known,
  /// the latest scores count as the best.
  bool improves(int epoch, const Scores& scores) {
    const bool better = std::isnan(scores_.validation) ||
                        (lower_is_better(metric_) ? scores.validation < scores_.validation
                                                  : scores.validation > scores_.validation);
    if (better) {
      restore(epoch, scores, 0);
    } else {
      ++waited_;
    }
    return better;
  }
  /// Begins to count evaluations without a better score anew.
  void forgive() { waited_ = 0; }
  /// Continues an earlier run, whose best epoch was followed by `waited` evaluations.
  void restore(int epoch, const Scores& scores, int waited) {
    epoch_ = epoch;
    scores_ = scores;
    waited_ = waited;
  }

  bool exhausted() const { return patience_ > 0 && waited_ >= patience_; }
  int epoch() const { return epoch_; }  ///< -1 before the first evaluation.
  const Scores& scores() const { return scores_; }
  int waited() const { return waited_; }  ///< Evaluations since the best epoch.

 private:
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  int patience_;
  Metric metric_;
  int epoch_ = -1;
  int waited_ = 0;
  Scores scores_{kUnknown, kUnknown, kUnknown};
};

}  // namespace heliograph
