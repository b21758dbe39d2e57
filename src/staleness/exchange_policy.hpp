#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/packed_rows.hpp"
#include "core/site.hpp"
#include "graph/shard.hpp"
#include "heliograph/options.hpp"
#include "staleness/bit_budget.hpp"

namespace heliograph {

/// The most bits of a row whose bits follow a BitsPolicy.
inline constexpr int kMostPolicyBits = 8;

/// Whether rows of a site differ in their bits.
constexpr bool bits_follow_degree(BitsPolicy policy) {
  return policy == BitsPolicy::degree || policy == BitsPolicy::degree_trend;
}
/// Whether epochs differ in the bits of their rows.
constexpr bool bits_follow_trend(BitsPolicy policy) {
  return policy == BitsPolicy::trend || policy == BitsPolicy::degree_trend;
}

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
  /// The policy of a run of `epochs` epochs whose model has these sites. Throws Error(usage) if
  /// `options.stale_sites` names another.
  ExchangePolicy(const ExchangeOptions& options, int epochs, std::span<const Site> sites);

  const ExchangeOptions& options() const { return options_; }

  Delivery of(const Site& site, Clock clock) const {
    return {late(site) ? lag(clock) : 0, format(site)};
  }
  /// Whether the site's halo rows are late in epochs that are not synchronous.
  bool late(const Site& site) const { return std::ranges::find(late_, site.id) != late_.end(); }
  /// Whether the site's halo rows are those of their epoch in fp32, in every epoch.
  bool exact(const Site& site) const { return !late(site) && format(site).bits == 32; }
  /// Which of this rank's rows a site sends to each peer.
  const HaloPlan& plan(const Site& site, const Shard& shard) const {
    return shard.plan(site.direction, site.partial_sums);
  }

  /// Whether any site is late.
  bool stale() const { return !late_.empty(); }
  /// The lag of late sites: min(S, e - last synchronous epoch at or before e); 0 if none is late.
  int lag(Clock clock) const;
  /// Whether all halo rows are used in the epoch in which they are sent.
  bool synchronous(Clock clock) const;

  /// For how many epochs a site holds halo rows at a time. If 1, the halo is used before the next
  /// such site sends, so they can share memory.
  int slots(const Site& site) const { return late(site) ? slots_ : 1; }
  /// For how many epochs a site keeps the rows that it sent (Halo::kept): gradients that arrive S
  /// epochs late were computed from rows that had arrived S epochs late.
  std::int64_t kept_slots(const Site& site) const;
  /// Whether each row of the site has bits of its own. Its format has the most that a row may have,
  /// in whose layout all its rows are encoded.
  bool varies(const Site& site) const {
    return (budget_ || by_degree()) && site.groups == 1 && site.exact_cols == 0;
  }
  /// Whether these are given by degree (BitsPolicy::degree).
  bool by_degree() const { return bits_follow_degree(options_.bits_policy); }
  /// The most bits that a row may have at a site that varies.
  int most_bits() const { return by_degree() ? kMostPolicyBits : kMostChosenBits; }
  /// If rows choose their bits: how many bytes they may take.
  const std::optional<BitBudget>& budget() const { return budget_; }
  /// Whether the bits of later rows are chosen at the end of the epoch, by the ranges of its rows.
  /// The next epoch is synchronous, so late rows have the bits of the epoch that uses them.
  bool chooses(Clock clock) const;
  /// The fewest bits of the site's rows; all have these, unless the site varies.
  int fewest_bits(const Site& site) const;
  /// Whether a site leaves out columns or bits of its rows.
  bool thins(const Site& site) const { return varies(site) || keeps_columns(site); }
  /// Whether a site sends only the columns of a row that its dropout keeps. Late partial sums of
  /// gradients are cut by the mask of the epoch that uses them, which their sender does not know.
  bool keeps_columns(const Site& site) const {
    return options_.kept_columns && site.dropped.threshold != 0 &&
           (site.direction == Direction::forward || !late(site));
  }
  /// Whether any of the sites does.
  bool keeps_columns(std::span<const Site> sites) const {
    return std::ranges::any_of(sites, [this](const Site& site) { return keeps_columns(site); });
  }
  /// The largest number of bytes that one encoded row of the site takes.
  std::size_t most_row_bytes(const Site& site) const { return format(site).row_bytes(site.cols); }
  /// Likewise in any epoch of the run (BitsPolicy::trend).
  std::size_t most_row_bytes_of_run(const Site& site) const;
  /// The mean number of bytes that a row of the site takes at so many bits; less if it sends kept
  /// columns only.
  double mean_row_bytes(const Site& site, int bits) const;
  /// Likewise at the site's bits. Where rows have bits of their own, at those of the budget if it
  /// gives bits, in the mean of the groups of degrees, or otherwise at the fewest.
  double mean_row_bytes(const Site& site) const;
  /// The bytes that a row with all columns may take in the mean, at the bits of the budget.
  double budget_row_bytes(const Site& site) const;

 private:
  RowFormat format(const Site& site) const;

  ExchangeOptions options_;
  std::optional<BitBudget> budget_;
  std::vector<int> late_;  ///< Ids of sites.
  int slots_ = 1;          ///< Of late sites.
};

}  // namespace heliograph
