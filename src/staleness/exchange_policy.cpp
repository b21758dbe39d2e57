#include "staleness/exchange_policy.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/plural.hpp"
#include "core/throw_error.hpp"

namespace heliograph {

namespace {

/// Partial sums of gradients at 1 bit lose score (docs/covers.md).
constexpr int kFewestBitsOfGradientSums = 2;

/// Epochs between two choices of bits.
constexpr int kEpochsOfAChoice = 25;

/// The ids of the sites that a value of ExchangeOptions::stale_sites stands for, partial sums with
/// the rows of their site. Throws Error(usage) if it names no site.
std::vector<int> chosen_sites(const std::string& value, std::span<const Site> sites) {
  std::vector<const Site*> chosen;
  std::vector<std::string> known;
  const bool all = value == "all", lowest = value == "lowest-backward";
  for (const Site& site : sites) {
    if (site.partial_sums) continue;
    known.push_back(site.name);
    // A backward pass ends with its first site.
    const bool ends = site.direction == Direction::backward && chosen.empty();
    if (all || (lowest && ends)) chosen.push_back(&site);
  }
  const bool lists = !all && !lowest && !known.empty();  // A model without sites fits any list.
  for (std::size_t at = 0; lists && at <= value.size();) {
    const std::size_t end = std::min(value.find(',', at), value.size());
    const auto named = std::ranges::find(sites, value.substr(at, end - at), &Site::name);
    if (named == sites.end() || named->partial_sums) {
      throw_error(ErrorCode::usage,
                  "--stale-sites {}: give all, lowest-backward or, with commas between them, sites "
                  "of this model: {}",
                  value, listed(known));
    }
    chosen.push_back(&*named);
    at = end + 1;
  }
  std::vector<int> ids;
  for (const Site* site : chosen) {
    ids.push_back(site->id);
    if (site->sums != nullptr) ids.push_back(site->sums->id);
  }
  return ids;
}

/// The mean of `of(bits)` over the groups of BitsPolicy::degree.
template <class Of>
double mean_of_groups(int fewest, Of of) {
  double sum = 0;
  int groups = 0;
  for (int bits = fewest; bits <= kMostPolicyBits; bits *= 2, ++groups) sum += of(bits);
  return sum / groups;
}

}  // namespace

// No halo value is older than the run. A run of one epoch still has two slots if a site is late,
// for a longer run that may resume from it.
ExchangePolicy::ExchangePolicy(const ExchangeOptions& options, int epochs,
                               std::span<const Site> sites)
    : options_(options),
      budget_(parse_bit_budget(options.auto_bits)),
      late_(chosen_sites(options.stale_sites, sites)) {
  if (options.staleness == 0) late_.clear();
  if (!late_.empty()) slots_ = 1 + std::min(options.staleness, std::max(1, epochs - 1));
}

int ExchangePolicy::fewest_bits(const Site& site) const {
  const bool forward = site.direction == Direction::forward;
  const int bits = bit_count(forward ? options_.bits_forward : options_.bits_backward);
  return site.partial_sums && !forward ? std::max(bits, kFewestBitsOfGradientSums) : bits;
}

bool ExchangePolicy::chooses(Clock clock) const {
  // The first epoch has shown no ranges before.
  return budget_ && (clock.epoch == 0 || (clock.epoch + 1) % kEpochsOfAChoice == 0);
}

RowFormat ExchangePolicy::format(const Site& site) const {
  const int bits = varies(site) ? most_bits() : fewest_bits(site);
  return {bits, bits <= 8 && (!site.nonnegative || site.partial_sums),
          static_cast<int>(site.exact_cols), site.groups};
}

double ExchangePolicy::mean_row_bytes(const Site& site, int bits) const {
  RowFormat of = format(site);
  of.bits = bits;
  if (!keeps_columns(site)) return static_cast<double>(of.row_bytes(site.cols));
  // The number of kept columns is binomially distributed, with the probability of none first.
  const double dropped = site.dropped.threshold / 65536.0;
  const auto cols = static_cast<double>(site.cols);
  double mean = 0, logarithm = cols * std::log(dropped);
  for (std::int64_t kept = 1; kept <= site.cols && dropped < 1; ++kept) {
    const auto k = static_cast<double>(kept);
    logarithm += std::log((cols - k + 1) / k * (1 - dropped) / dropped);
    mean += std::exp(logarithm) * static_cast<double>((kept * of.bits + 7) / 8);
  }
  return static_cast<double>(of.parameter_bytes()) + mean;
}

double ExchangePolicy::budget_row_bytes(const Site& site) const {
  RowFormat format = this->format(site);
  const auto at = [&](int bits) {
    format.bits = bits;
    return static_cast<double>(format.row_bytes(site.cols));
  };
  int below = fewest_bits(site);
  if (by_degree() && varies(site)) return mean_of_groups(below, at);
  if (!budget_ || !varies(site) || budget_->mean_bits <= below) return at(below);
  // Rows end with a whole byte, so bytes do not grow evenly with bits.
  while (2 * below < budget_->mean_bits) below *= 2;
  return at(below) + (budget_->mean_bits / below - 1) * (at(2 * below) - at(below));
}

std::size_t ExchangePolicy::most_row_bytes_of_run(const Site& site) const {
  RowFormat of = format(site);
  if (bits_follow_trend(options_.bits_policy)) of.bits = kMostPolicyBits;
  return of.row_bytes(site.cols);
}

double ExchangePolicy::mean_row_bytes(const Site& site) const {
  if (by_degree() && varies(site)) {
    return mean_of_groups(fewest_bits(site), [&](int bits) { return mean_row_bytes(site, bits); });
  }
  const bool chosen = varies(site) && budget_->mean_bits > fewest_bits(site);
  return chosen ? budget_row_bytes(site) : mean_row_bytes(site, fewest_bits(site));
}

std::int64_t ExchangePolicy::kept_slots(const Site& site) const {
  const bool needed = site.keeps_sent && (slots_ > 1 || format(site).bits < 32);
  return needed ? 2 * std::int64_t{slots_} - 1 : 0;
}

bool ExchangePolicy::synchronous(Clock clock) const {
  const std::int64_t epoch = clock.epoch;
  return late_.empty() || epoch == 0 || epoch < options_.warmup_epochs || chooses({epoch - 1}) ||
         (options_.sync_every > 0 && epoch % options_.sync_every == 0);
}

int ExchangePolicy::lag(Clock clock) const {
  for (int age = 0; age < options_.staleness; ++age) {
    if (synchronous({clock.epoch - age})) return age;
  }
  return options_.staleness;
}

}  // namespace heliograph
