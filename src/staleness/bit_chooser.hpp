#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "core/buffer.hpp"
#include "core/site.hpp"
#include "staleness/exchange_policy.hpp"

namespace heliograph {

/// By direction, the factor of each inner row's sum; empty if all are 1.
struct SumScales {
  std::span<const float> forward, backward;
};

/// Chooses the bits of rows within the policy's budget. Rounding a row of range d to b bits adds an
/// error of about w d^2 / (2^b - 1)^2 to the sums that read it, w being the sum of their squared
/// weights. Each row has the bits at which this error, as a share of its site's at 1 bit, and the
/// price of its bytes are least together; the price of a byte is the same for all rows of all sites
/// and ranks. So the sum of errors is the least for these bytes. The choice depends on ranges and K
/// alone. Only the rank's own thread uses it.
class BitChooser {
 public:
  /// `sites`: those of the model; the bits of rows of those that vary are chosen. The communicator
  /// must outlive the object. Collective. Throws Error: usage (rows take more bytes than a budget
  /// in bytes at the fewest bits), peer_lost.
  BitChooser(Communicator& comm, const Shard& shard, const ExchangePolicy& policy,
             std::span<const Site> sites, const SumScales& scales, MemoryAccount* account);

  /// Whether a row may have more than the fewest bits within the budget.
  bool spends() const;
  /// By how many bytes an epoch all ranks exceed the budget at the fewest bits.
  double bytes_over_budget() const { return std::max(0.0, fewest_bytes_ - budget_); }

  /// Returns the bits of each site's inner rows, none for a site that does not vary. `ranges`: of
  /// each site's inner rows, likewise. Collective. Throws Error: peer_lost.
  std::vector<std::vector<std::uint8_t>> choose(std::span<const std::vector<float>> ranges);

 private:
  /// How the sums of all ranks read the inner rows that a plan sends.
  struct Readers {
    const HaloPlan* plan;
    Direction direction;
    std::vector<double> weights;       ///< w of each inner row.
    std::vector<std::int32_t> copies;  ///< How many ranks receive each inner row.
  };
  /// More bits of a row pay where its error for each copy exceeds the price of a byte times
  /// `threshold`.
  struct Step {
    double threshold;
    std::uint8_t bits;
    double bytes;  ///< Mean bytes of a row with these bits.
  };
  struct SiteRows {
    int site = 0;       ///< Its id.
    int errors = 0;     ///< The id of the site to whose sums its errors are added.
    double weight = 1;  ///< How much the site's errors count.
    std::size_t readers = 0;
    std::vector<Step> steps;  ///< The first is that of the fewest bits, with the threshold 0.
  };
  std::size_t find_readers(const Site& site, const HaloPlan& plan, const Csr& entries,
                           std::span<const float> scale);
  void add(std::span<double> sums);

  Communicator& comm_;
  std::size_t sites_;
  std::vector<Readers> readers_;
  std::vector<SiteRows> rows_;
  /// Bytes of rows that vary, of all ranks in an epoch: those that they may take, and least.
  double budget_ = 0, fewest_bytes_ = 0;
  CountedBytes bytes_;
};

}  // namespace heliograph
