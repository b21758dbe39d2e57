#include "train/exchange_advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "core/plural.hpp"
#include "core/throw_error.hpp"
#include "layers/compose.hpp"
#include "train/plan/derived_exchanges.hpp"

namespace heliograph {
namespace {

// Models in which so many exchanges follow each other lost score in experiments (docs/results.md).
constexpr int kDeepForLag = 4;
constexpr int kDeepForOneBit = 6;

/// The greatest age of halo rows in a run, and how many epochs are synchronous.
struct Ages {
  int oldest = 0, synchronous = 0;
};

Ages ages_in(const TrainOptions& options, const ExchangePolicy& policy) {
  Ages ages;
  for (int epoch = 0, age = 0; epoch < options.epochs && ages.oldest < options.exchange.staleness;
       ++epoch) {
    age = policy.synchronous({epoch}) ? 0 : age + 1;
    ages.synchronous += age == 0 ? 1 : 0;
    ages.oldest = std::max(ages.oldest, age);
  }
  return ages;
}

/// Of a run whose model is so deep that late rows or 1 bit may cost score; empty if it is not.
std::string advice_on_depth(const TrainOptions& options, const ExchangePolicy& policy,
                            std::span<const Site> sites, int oldest) {
  const ModelOptions& model = options.model;
  const bool propagates = model.kind == ModelKind::appnp || model.kind == ModelKind::dagnn;
  const int depth = propagates ? model.hops : model.layers;
  const std::string chain = counted(depth, propagates ? "hop" : "layer");
  const ExchangeOptions& exchange = options.exchange;
  const std::optional<BitBudget>& budget = policy.budget();
  const auto [fewest, most] =
      std::minmax({bit_count(exchange.bits_forward), bit_count(exchange.bits_backward)});
  const auto late = [&](const Site& site) { return policy.late(site); };
  if (oldest > 0 && depth >= kDeepForLag && std::ranges::all_of(sites, late)) {
    return fmt::format("{} with {}{} often lose much of their score: {}", chain,
                       spell_options(fmt::format("--staleness {}", exchange.staleness)),
                       fewest < 32 && !budget ? " at " + counted(fewest, "bit") : "",
                       spell_options("compare with --staleness 0, or try --stale-sites "
                                     "lowest-backward"));
  }
  const bool one_bit =
      budget ? most == 1 && budget->bytes == 0 && budget->mean_bits <= 1 : fewest == 1;
  if (sites.empty() || depth < kDeepForOneBit || !one_bit) return "";
  return fmt::format("{} {} can lose score on some graphs: {}", chain,
                     budget ? "in the bytes of 1 bit" : "at 1 bit",
                     spell_options("compare with --bits 2 or more"));
}

/// If gradients of attention have few bits.
std::string advice_on_attention(const TrainOptions& options) {
  const int bits = bit_count(options.exchange.bits_backward);
  if (!attends(options.model) || bits >= 4) return "";
  return fmt::format("gradients of attention lose much of their precision at {}: {}",
                     counted(bits, "bit"), spell_options("try --bits-backward 4"));
}

/// If rows with what decodes them take more bytes than they would in bf16, at all sites together.
std::string advice_on_narrow_rows(const TrainOptions& options, const ExchangePolicy& policy,
                                  std::span<const Site> sites) {
  ExchangeOptions bf16 = options.exchange;
  bf16.auto_bits.clear();
  bf16.bits_policy = BitsPolicy::uniform;
  for (Bits* bits : {&bf16.bits_forward, &bf16.bits_backward}) {
    if (bit_count(*bits) < 16) *bits = Bits::bf16;
  }
  const ExchangePolicy plain(bf16, options.epochs, sites);
  double bytes = 0, in_bf16 = 0;
  for (const Site& site : sites) {
    bytes += policy.budget_row_bytes(site);
    in_bf16 += plain.budget_row_bytes(site);
  }
  if (bytes <= in_bf16) return "";
  return fmt::format(
      "the rows of a node have so few columns that they take {} bytes an epoch, with what decodes "
      "them, and {} with 16 bits: {}",
      bytes, in_bf16, spell_options("--bits 16 sends less"));
}

/// If no halo row gets as old as ExchangeOptions::staleness allows.
std::string advice_on_lag(const TrainOptions& options, const Ages& ages) {
  const int staleness = options.exchange.staleness;
  if (ages.oldest == staleness) return "";
  return fmt::format(
      "{} is never reached in {}, {} of them synchronous: halo rows are at most {} old",
      spell_options(fmt::format("--staleness {}", staleness)), counted(options.epochs, "epoch"),
      ages.synchronous, counted(ages.oldest, "epoch"));
}

/// If rows of chosen bits all have the fewest.
std::string advice_on_budget(const ExchangeOptions& exchange, const StaleHalo& halo) {
  if (halo.bytes_over_budget() > 0) {
    return fmt::format(
        "{} by {:.0f} bytes an epoch even at the fewest bits, as partial sums take more than the "
        "rows that they replace: {}",
        spell_options(fmt::format("--bits {} exceeds its budget", exchange.auto_bits)),
        halo.bytes_over_budget(), spell_options("compare with --exchange boundary"));
  }
  if (halo.chooses_bits()) return "";
  const int fewest = bit_count(std::min(exchange.bits_forward, exchange.bits_backward));
  const std::string more =
      fewest < kMostChosenBits ? fmt::format("; --bits auto:{} gives it more", 2 * fewest) : "";
  return spell_options(
      fmt::format("--bits {} leaves all rows at the fewest bits: neither dropout nor covers save "
                  "bytes that it could spend{}",
                  exchange.auto_bits, more));
}

}  // namespace

void log_exchange_advice(const TrainOptions& options, const StaleHalo& halo,
                         std::span<const Site> sites, const LogCallback& log) {
  const ExchangePolicy& policy = halo.policy();
  const auto warn = [&](const std::string& advice) {
    if (!advice.empty()) log(LogLevel::warning, advice);
  };
  const Ages ages = policy.stale() ? ages_in(options, policy) : Ages();
  warn(advice_on_depth(options, policy, sites, ages.oldest));
  if (!sites.empty()) warn(advice_on_attention(options));
  warn(advice_on_narrow_rows(options, policy, sites));
  const bool keeps = policy.keeps_columns(sites), asked = options.exchange.kept_columns;
  if (keeps && !asked) {
    log(LogLevel::info, "kept columns: columns that dropout drops do not travel");
  }
  const auto keep_later = [&](const ExchangeOptions& later) {
    return ExchangePolicy(later, options.epochs, sites).keeps_columns(sites);
  };
  if (asked && !keeps && std::ranges::none_of(trend_exchanges(options.exchange), keep_later)) {
    warn(
        spell_options("--kept-columns leaves nothing out: no rows that ranks exchange are what "
                      "ReLU and dropout leave"));
  }
  if (policy.budget() && !sites.empty()) warn(advice_on_budget(options.exchange, halo));
  if (policy.stale()) warn(advice_on_lag(options, ages));
}

}  // namespace heliograph
