#include "staleness/bit_chooser.hpp"

#include <algorithm>
#include <cmath>

#include "comm/collectives.hpp"
#include "comm/exchange/setup_exchange.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

/// How much more an error of features counts than one of gradients that is as large a share of its
/// site's (docs/convergence.md).
constexpr double kForwardWeight = 4;

/// Bytes that tell a row's bits once in 25 epochs.
constexpr double kTellingBytes = 0.01;

/// The price of a byte is a power of 2 with an exponent between these, which contain every share of
/// an error, found by this many divisions into as many parts.
constexpr double kLeastExponent = -80, kMostExponent = 10;
constexpr int kDivisions = 5, kParts = 8;

/// The error of rounding to so many bits, as a share of that at 1 bit.
double error_at(int bits) {
  const double steps = (1 << bits) - 1;
  return 1 / (steps * steps);
}

/// The sum of squared weights with which a rank's sums read each of its halo rows.
std::vector<float> squared_weights(const Csr& entries, std::int32_t halo_rows,
                                   std::span<const float> scale) {
  std::vector<float> sums(static_cast<std::size_t>(halo_rows), 0.0F);
  for (std::size_t row = 0; row + 1 < entries.offsets.size(); ++row) {
    for (auto e = static_cast<std::size_t>(entries.offsets[row]);
         e < static_cast<std::size_t>(entries.offsets[row + 1]); ++e) {
      const float weight =
          (entries.values.empty() ? 1.0F : entries.values[e]) * (scale.empty() ? 1.0F : scale[row]);
      sums[static_cast<std::size_t>(entries.columns[e])] += weight * weight;
    }
  }
  return sums;
}

}  // namespace

BitChooser::BitChooser(Communicator& comm, const Shard& shard, const ExchangePolicy& policy,
                       std::span<const Site> sites, const SumScales& scales, MemoryAccount* account)
    : comm_(comm), sites_(sites.size()), bytes_(MemoryUse::halo, account) {
  const BitBudget& budget = *policy.budget();
  // In bytes, over all ranks: what all rows take at the fewest bits, what they may take, and what
  // is taken beside rows that vary.
  double least = 0, most = 0, others = 0;
  std::int64_t held = 0;
  for (const Site& site : sites) {
    const HaloPlan& plan = policy.plan(site, shard);
    const RowFormat format = policy.of(site, {}).format;
    for (const HaloPlan::Peer& peer : plan.peers) {
      const auto sent = static_cast<double>(peer.sent.size());
      least += sent * policy.mean_row_bytes(site);
      others += sent * (policy.varies(site) ? kTellingBytes : policy.mean_row_bytes(site));
      if (site.partial_sums) continue;
      const auto columns = static_cast<double>(site.cols);
      const double codes = budget.mean_bits > 0 ? columns * budget.mean_bits / 8
                                                : std::ceil(columns * policy.fewest_bits(site) / 8);
      most += (sent + peer.replaced) * (static_cast<double>(format.parameter_bytes()) + codes +
                                        4.0 * static_cast<double>(site.exact_cols));
    }
    if (!policy.varies(site)) continue;
    SiteRows& rows = rows_.emplace_back();
    rows.site = rows.errors = site.id;
    for (const Site& of : sites) {
      if (of.sums != nullptr && of.sums->id == site.id) rows.errors = of.id;
    }
    rows.weight = site.direction == Direction::forward ? kForwardWeight : 1;
    for (int bits = policy.fewest_bits(site); bits <= kMostChosenBits; bits *= 2) {
      rows.bytes.emplace_back(static_cast<std::uint8_t>(bits), policy.mean_row_bytes(site, bits));
    }
    const Adjacency& a = shard.adjacency(site.direction);
    rows.weights = sum_to_owners(
        comm, plan,
        squared_weights(site.partial_sums ? a.sums->received : a.halo, plan.halo_rows,
                        site.direction == Direction::forward ? scales.forward : scales.backward));
    rows.copies.assign(static_cast<std::size_t>(plan.inner_rows), 0);
    for (const HaloPlan::Peer& peer : plan.peers) {
      for (const std::int32_t row : peer.sent) ++rows.copies[static_cast<std::size_t>(row)];
    }
    held += static_cast<std::int64_t>(rows.weights.size() * (sizeof(float) + sizeof(std::int32_t)));
  }
  bytes_.set(held);
  std::array<double, 3> sums{least, most, others};
  add(sums);
  const double bytes = budget.bytes > 0 ? static_cast<double>(budget.bytes) : sums[1];
  if (budget.bytes > 0 && bytes < sums[0]) {
    throw_error(ErrorCode::usage,
                "--bits auto:SIZE gives rows {} bytes an epoch, but they take {:.0f} at the fewest "
                "bits",
                budget.bytes, std::ceil(sums[0]));
  }
  budget_ = bytes - sums[2];
}

void BitChooser::add(std::span<double> sums) { AllReduce(comm_, Channel::moments).sum(sums); }

std::vector<std::vector<std::uint8_t>> BitChooser::choose(
    std::span<const std::vector<float>> squared_ranges) {
  std::vector<double> errors(sites_, 0.0);
  const auto error_of = [&](const SiteRows& rows, std::size_t r) {
    return double{rows.weights[r]} * squared_ranges[static_cast<std::size_t>(rows.site)][r];
  };
  for (const SiteRows& rows : rows_) {
    for (std::size_t r = 0; r < rows.copies.size(); ++r) {
      errors[static_cast<std::size_t>(rows.errors)] += error_of(rows, r);
    }
  }
  add(errors);
  // Calls visit(site, row, copies, weighted share of the site's error) for each row that is sent.
  const auto for_rows = [&](const auto& visit) {
    for (const SiteRows& rows : rows_) {
      const double sum = errors[static_cast<std::size_t>(rows.errors)];
      const double share = sum > 0 ? rows.weight / sum : 0;
      for (std::size_t r = 0; r < rows.copies.size(); ++r) {
        if (rows.copies[r] > 0) visit(rows, r, rows.copies[r], share * error_of(rows, r));
      }
    }
  };
  // The bits that cost least, and their bytes.
  const auto best_at = [](const SiteRows& rows, double copies, double error, double price) {
    return *std::ranges::min_element(rows.bytes, {}, [&](const auto& at) {
      return error * error_at(at.first) + price * copies * at.second;
    });
  };

  // The least price at which rows keep to the budget; at the greatest, all have the fewest bits.
  double least = kLeastExponent, part = (kMostExponent - kLeastExponent) / kParts;
  for (int division = 0; division < kDivisions; ++division, part /= kParts) {
    std::array<double, kParts> prices{}, bytes{};
    for (int i = 0; i < kParts; ++i) {
      prices[static_cast<std::size_t>(i)] = std::exp2(least + (i + 1) * part);
    }
    for_rows([&](const SiteRows& rows, std::size_t, double copies, double error) {
      for (std::size_t i = 0; i < kParts; ++i) {
        bytes[i] += copies * best_at(rows, copies, error, prices[i]).second;
      }
    });
    add(bytes);
    const auto fits = std::ranges::find_if(bytes, [&](double sum) { return sum <= budget_; });
    least += part * static_cast<double>(std::min<std::ptrdiff_t>(fits - bytes.begin(), kParts - 1));
  }
  const double price = std::exp2(least + part * kParts);

  std::vector<std::vector<std::uint8_t>> chosen(sites_);
  for (const SiteRows& rows : rows_) {
    chosen[static_cast<std::size_t>(rows.site)].assign(rows.copies.size(), rows.bytes[0].first);
  }
  for_rows([&](const SiteRows& rows, std::size_t r, double copies, double error) {
    chosen[static_cast<std::size_t>(rows.site)][r] = best_at(rows, copies, error, price).first;
  });
  return chosen;
}

}  // namespace heliograph
