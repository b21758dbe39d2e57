#pragma once

#include <algorithm>
#include <cstdint>

#include "heliograph/options.hpp"

namespace heliograph {

/// No value is older than the run, so a larger bound would only make rings longer. A run of one
/// epoch keeps its halos for the longer one that may go on from it.
inline ExchangeOptions within_run(ExchangeOptions exchange, int epochs) {
  exchange.staleness = std::min(exchange.staleness, std::max(1, epochs - 1));
  return exchange;
}

/// Which epochs are synchronous, and how old the halo values of the others are. A pure function
/// of the epoch, so that every rank and every run agrees.
class StalenessSchedule {
 public:
  explicit StalenessSchedule(const ExchangeOptions& options)
      : bound_(options.staleness),
        sync_every_(options.sync_every),
        warmup_epochs_(options.warmup_epochs) {}

  int bound() const { return bound_; }

  bool synchronous(std::int64_t epoch) const {
    return bound_ == 0 || epoch == 0 || epoch < warmup_epochs_ ||
           (sync_every_ > 0 && epoch % sync_every_ == 0);
  }

  /// lag(e) = min(S, e - last synchronous epoch at or before e).
  int lag(std::int64_t epoch) const {
    for (int age = 0; age < bound_; ++age) {
      if (synchronous(epoch - age)) return age;
    }
    return bound_;
  }

 private:
  int bound_;
  int sync_every_;
  int warmup_epochs_;
};

}  // namespace heliograph
