#pragma once

#include <vector>

#include "comm/collectives.hpp"
#include "core/phase_clock.hpp"
#include "heliograph/train.hpp"

namespace heliograph {

/// What the process of a rank asks of its run at the end of an epoch.
struct RunRequests {
  bool stop = false;
  bool save = false;
};

struct EpochEnd {
  EpochReport report;
  double gradient_squares = 0;  ///< The sum of squares of all weight gradients.
  RunRequests asked;            ///< What at least one rank asks for.
  bool records = false;         ///< Whether Device::can_record() on at least one rank.
};

/// What one rank measured in an epoch, as numbers that can be summed over ranks. Bytes are those
/// that the rank sent.
struct RankEpoch {
  double loss = 0, gradient_squares = 0;
  double seconds = 0;
  PhaseClock phases;
  double halo_forward = 0, halo_backward = 0, allreduce_bytes = 0, fp32_bytes = 0;
  double stops = 0, saves = 0;  ///< 1 if this rank asks for it.
  double records = 0;           ///< 1 if Device::can_record().
};

/// Combines what the ranks measured. Used by the rank's own thread.
class EpochStatistics {
 public:
  /// `account` counts the memory of the sum. The references must outlive the object.
  EpochStatistics(Communicator& comm, MemoryAccount* account);

  /// Returns, on every rank, a report of loss, times and bytes, and what was asked for. Collective,
  /// on Channel::evaluation. Allocates in the first call only.
  EpochEnd combine(const RankEpoch& mine);

 private:
  Communicator& comm_;
  std::vector<RankEpoch> ranks_;  ///< Outlives the sum, whose messages read and write it.
  AllReduce sum_;
};

}  // namespace heliograph
