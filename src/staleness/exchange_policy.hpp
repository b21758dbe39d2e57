#pragma once

#include <cstddef>
#include <cstdint>

#include "core/packed_rows.hpp"
#include "core/site.hpp"
#include "graph/shard.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

/// What an exchange does at one time.
struct Delivery {
  int lag = 0;       ///< Age, in epochs, of the halo rows that the pass uses.
  RowFormat format;  ///< Of the rows that are sent.
};

/// What the exchanges of a run may do: how late they are, how rows are encoded, which rows travel.
/// Whoever must know asks here. A pure function of site and clock, so that all ranks and all runs
/// agree. Immutable.
class ExchangePolicy {
 public:
  /// Of a run of `epochs` epochs.
  ExchangePolicy(const ExchangeOptions& options, int epochs);

  Delivery of(const Site& site, Clock clock) const { return {lag(clock), format(site)}; }
  /// Which rows a site sends to whom, of what this rank owns.
  const HaloPlan& plan(const Site& site, const Shard& shard) const {
    return shard.adjacency(site.direction).plan;
  }

  /// The largest lag of any site: min(S, e - last synchronous epoch at or before e).
  int lag(Clock clock) const;
  /// Whether what is sent is used in the same epoch.
  bool synchronous(Clock clock) const;

  /// How many epochs' halo rows a site holds at a time. With 1, they are used before another site's
  /// are sent, and sites can share their memory.
  int slots() const { return slots_; }
  /// Bytes of a site's encoded row, at most.
  std::size_t most_row_bytes(const Site& site) const { return format(site).row_bytes(site.cols); }

 private:
  RowFormat format(const Site& site) const;

  ExchangeOptions options_;
  int slots_;
};

}  // namespace heliograph
