#include "staleness/bit_chooser.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "comm/collectives.hpp"
#include "comm/exchange/setup_exchange.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

/// How much more an error of features counts than one of gradients that is as large a share of its
/// site's (docs/auto_bits.md).
constexpr double kForwardWeight = 4;

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
std::vector<double> squared_weights(const Csr& entries, std::int32_t halo_rows,
                                    std::span<const float> scale) {
  std::vector<double> sums(static_cast<std::size_t>(halo_rows), 0.0);
  for (std::size_t row = 0; row + 1 < entries.offsets.size(); ++row) {
    for (auto e = static_cast<std::size_t>(entries.offsets[row]);
         e < static_cast<std::size_t>(entries.offsets[row + 1]); ++e) {
      const double weight = (entries.values.empty() ? 1.0 : double{entries.values[e]}) *
                            (scale.empty() ? 1.0 : double{scale[row]});
      sums[static_cast<std::size_t>(entries.columns[e])] += weight * weight;
    }
  }
  return sums;
}

}  // namespace

BitChooser::BitChooser(Communicator& comm, const Shard& shard, const ExchangePolicy& policy,
                       std::span<const Site> sites, const SumScales& scales, MemoryAccount* account)
    : comm_(comm), sites_(sites.size()), bytes_(MemoryUse::halo, account) {
  // Of all sites: bytes that boundary rows may take, and that rows take which do not vary.
  double boundary = 0, fixed = 0;
  for (const Site& site : sites) {
    const HaloPlan& plan = policy.plan(site, shard);
    double sent = 0, replaced = 0;
    for (const HaloPlan::Peer& peer : plan.peers) {
      sent += static_cast<double>(peer.sent.size());
      replaced += peer.replaced;
    }
    if (!site.partial_sums) boundary += (sent + replaced) * policy.budget_row_bytes(site);
    if (!policy.varies(site)) {
      fixed += sent * policy.mean_row_bytes(site);
      continue;
    }
    SiteRows& rows = rows_.emplace_back();
    rows.site = rows.errors = site.id;
    for (const Site& of : sites) {
      if (of.sums != nullptr && of.sums->id == site.id) rows.errors = of.id;
    }
    rows.weight = site.direction == Direction::forward ? kForwardWeight : 1;
    const int fewest = policy.fewest_bits(site);
    rows.steps.push_back(
        {0, static_cast<std::uint8_t>(fewest), policy.mean_row_bytes(site, fewest)});
    for (int bits = 2 * fewest; bits <= kMostChosenBits; bits *= 2) {
      Step step{0, static_cast<std::uint8_t>(bits), policy.mean_row_bytes(site, bits)};
      const auto set_threshold = [&] {
        const Step& before = rows.steps.back();
        step.threshold = (step.bytes - before.bytes) / (error_at(before.bits) - error_at(bits));
      };
      set_threshold();
      // A step that never pays before the next one is left out.
      while (rows.steps.size() > 1 && step.threshold <= rows.steps.back().threshold) {
        rows.steps.pop_back();
        set_threshold();
      }
      rows.steps.push_back(step);
    }
    fewest_bytes_ += sent * rows.steps[0].bytes;
    const Adjacency& a = shard.adjacency(site.direction);
    rows.readers =
        find_readers(site, plan, site.partial_sums ? a.sums->received : a.halo,
                     site.direction == Direction::forward ? scales.forward : scales.backward);
  }
  std::int64_t held = 0;
  for (const Readers& readers : readers_) held += std::ssize(readers.copies);
  bytes_.set(held * static_cast<std::int64_t>(sizeof(double) + sizeof(std::int32_t)));
  std::array<double, 3> sums{boundary, fixed, fewest_bytes_};
  add(sums);
  const BitBudget& budget = *policy.budget();
  const double bytes = budget.bytes > 0 ? static_cast<double>(budget.bytes) : sums[0];
  fewest_bytes_ = sums[2];
  budget_ = bytes - sums[1];
  if (budget.bytes > 0 && budget_ < fewest_bytes_) {
    throw_error(
        ErrorCode::usage,
        "--bits {} gives rows {:.0f} bytes an epoch, but they take {:.0f} at the fewest bits",
        budget.text, bytes, std::ceil(sums[1] + sums[2]));
  }
}

bool BitChooser::spends() const {
  // Rows of few columns may take as many bytes with more bits.
  return budget_ > fewest_bytes_ || std::ranges::any_of(rows_, [](const SiteRows& rows) {
           return rows.steps.size() > 1 && rows.steps[1].threshold == 0;
         });
}

std::size_t BitChooser::find_readers(const Site& site, const HaloPlan& plan, const Csr& entries,
                                     std::span<const float> scale) {
  const auto found = std::ranges::find_if(readers_, [&](const Readers& readers) {
    return readers.plan == &plan && readers.direction == site.direction;
  });
  if (found != readers_.end()) return static_cast<std::size_t>(found - readers_.begin());
  Readers readers{&plan, site.direction, {}, {}};
  readers.weights = sum_to_owners(comm_, plan, squared_weights(entries, plan.halo_rows, scale));
  readers.copies.assign(static_cast<std::size_t>(plan.inner_rows), 0);
  for (const HaloPlan::Peer& peer : plan.peers) {
    for (const std::int32_t row : peer.sent) ++readers.copies[static_cast<std::size_t>(row)];
  }
  readers_.push_back(std::move(readers));
  return readers_.size() - 1;
}

void BitChooser::add(std::span<double> sums) { AllReduce(comm_, Channel::moments).sum(sums); }

std::vector<std::vector<std::uint8_t>> BitChooser::choose(
    std::span<const std::vector<float>> ranges) {
  std::vector<double> errors(sites_, 0.0);
  // Calls visit(row, copies, error) for each row of the site that is sent.
  const auto for_rows = [&](const SiteRows& rows, const auto& visit) {
    const Readers& readers = readers_[rows.readers];
    const std::vector<float>& of = ranges[static_cast<std::size_t>(rows.site)];
    for (std::size_t r = 0; r < readers.copies.size(); ++r) {
      if (readers.copies[r] == 0) continue;
      visit(r, readers.copies[r], readers.weights[r] * of[r] * of[r]);
    }
  };
  for (const SiteRows& rows : rows_) {
    for_rows(rows, [&](std::size_t, double, double error) {
      errors[static_cast<std::size_t>(rows.errors)] += error;
    });
  }
  add(errors);
  // What the error of a row counts.
  const auto share = [&](const SiteRows& rows) {
    const double sum = errors[static_cast<std::size_t>(rows.errors)];
    return sum > 0 ? rows.weight / sum : 0;
  };
  // The last step that pays for a row whose weighted share is `error` for each copy.
  const auto step_at = [](const SiteRows& rows, double error, double price) -> const Step& {
    std::size_t last = rows.steps.size() - 1;
    while (last > 0 && error <= price * rows.steps[last].threshold) --last;
    return rows.steps[last];
  };

  // The least price at which rows keep to the budget; at the greatest, all have the fewest bits.
  double least = kLeastExponent, part = (kMostExponent - kLeastExponent) / kParts;
  for (int division = 0; division < kDivisions; ++division, part /= kParts) {
    std::array<double, kParts> prices{}, bytes{};
    for (std::size_t i = 0; i < kParts; ++i) {
      prices[i] = std::exp2(least + static_cast<double>(i + 1) * part);
    }
    for (const SiteRows& rows : rows_) {
      for_rows(rows, [&, of = share(rows)](std::size_t, double copies, double error) {
        for (std::size_t i = 0; i < kParts; ++i) {
          bytes[i] += copies * step_at(rows, of * error / copies, prices[i]).bytes;
        }
      });
    }
    add(bytes);
    const auto fits = std::ranges::find_if(bytes, [&](double sum) { return sum <= budget_; });
    least += part * static_cast<double>(std::min<std::ptrdiff_t>(fits - bytes.begin(), kParts - 1));
  }
  const double price = std::exp2(least + part * kParts);

  std::vector<std::vector<std::uint8_t>> chosen(sites_);
  for (const SiteRows& rows : rows_) {
    std::vector<std::uint8_t>& bits = chosen[static_cast<std::size_t>(rows.site)];
    bits.assign(readers_[rows.readers].copies.size(), rows.steps[0].bits);
    for_rows(rows, [&, of = share(rows)](std::size_t r, double copies, double error) {
      bits[r] = step_at(rows, of * error / copies, price).bits;
    });
  }
  return chosen;
}

}  // namespace heliograph
