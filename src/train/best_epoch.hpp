#pragma once

#include <cmath>
#include <limits>

#include "train/metrics.hpp"

namespace heliograph {

/// The best epoch by validation score, and whether patience has run out.
class BestEpoch {
 public:
  explicit BestEpoch(int patience) : patience_(patience) {}
  /// As an earlier run left it: its best scores, and evaluations since then.
  BestEpoch(int patience, const Scores& best, int waited)
      : patience_(patience), waited_(waited), best_(best) {}

  /// True if `scores` are the best so far; as long as none is known, the latest count as best.
  bool improves(const Scores& scores) {
    const bool better = std::isnan(best_.validation) || scores.validation > best_.validation;
    waited_ = better ? 0 : waited_ + 1;
    if (better) best_ = scores;
    return better;
  }
  bool exhausted() const { return patience_ > 0 && waited_ >= patience_; }
  const Scores& scores() const { return best_; }
  int waited() const { return waited_; }

 private:
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  int patience_;
  int waited_ = 0;
  Scores best_{kUnknown, kUnknown, kUnknown};
};

}  // namespace heliograph
