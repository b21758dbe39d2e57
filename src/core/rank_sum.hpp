#pragma once

#include <span>

namespace heliograph {

/// A step's interface to sums over all ranks, in rank order. Used by the rank's own thread.
class RankSum {
 public:
  virtual ~RankSum() = default;

  /// Replaces each value by its sum over all ranks, the same bits on every rank. Collective. Throws
  /// Error(peer_lost).
  virtual void sum(std::span<double> values) = 0;
};

}  // namespace heliograph
