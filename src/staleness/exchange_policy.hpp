#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/packed_rows.hpp"
#include "core/site.hpp"
#include "graph/shard.hpp"
#include "heliograph/options.hpp"

namespace heliograph {

/// What a site's exchange does in one epoch.
struct Delivery {
  int lag = 0;       ///< Age, in epochs, of the halo rows that the pass uses.
  RowFormat format;  ///< The format of the rows that are sent.
};

/// The policy of a run's exchanges: how late halo rows are, how rows are encoded and which rows
/// travel. Answers are pure functions of site and clock, so all ranks and all runs agree.
/// Immutable.
class ExchangePolicy {
 public:
  /// The policy of a run of `epochs` epochs.
  ExchangePolicy(const ExchangeOptions& options, int epochs);

  Delivery of(const Site& site, Clock clock) const { return {lag(clock), format(site)}; }
  /// Which of this rank's rows a site sends to each peer.
  const HaloPlan& plan(const Site& site, const Shard& shard) const {
    return shard.plan(site.direction, site.partial_sums);
  }

  /// The largest lag of any site: min(S, e - last synchronous epoch at or before e).
  int lag(Clock clock) const;
  /// Whether halo rows are used in the epoch in which they are sent.
  bool synchronous(Clock clock) const;

  /// For how many epochs a site holds halo rows at a time. If 1, each halo is used before the next
  /// site sends, so all sites can share memory.
  int slots() const { return slots_; }
  /// For how many epochs a site keeps the rows that it sent (Halo::kept): gradients that arrive S
  /// epochs late were computed from rows that had arrived S epochs late.
  std::int64_t kept_slots(const Site& site) const;
  /// Whether a site sends only the columns of a row that its dropout keeps. Late partial sums of
  /// gradients are cut by the mask of the epoch that uses them, which their sender does not know.
  bool keeps_columns(const Site& site) const {
    return options_.kept_columns && site.dropped.threshold != 0 &&
           (site.direction == Direction::forward || options_.staleness == 0);
  }
  /// Whether any of the sites does.
  bool keeps_columns(std::span<const Site> sites) const {
    return std::ranges::any_of(sites, [this](const Site& site) { return keeps_columns(site); });
  }
  /// The largest number of bytes that one encoded row of the site takes.
  std::size_t most_row_bytes(const Site& site) const { return format(site).row_bytes(site.cols); }
  /// The mean number of bytes that a row of the site takes; less if it sends kept columns only.
  double mean_row_bytes(const Site& site) const;

 private:
  RowFormat format(const Site& site) const;

  ExchangeOptions options_;
  int slots_;
};

}  // namespace heliograph
