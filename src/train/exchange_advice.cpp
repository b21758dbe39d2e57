#include "train/exchange_advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "core/plural.hpp"
#include "core/throw_error.hpp"

namespace heliograph {
namespace {

// Models in which so many exchanges follow each other lost score in experiments (docs/results.md).
constexpr int kDeepForLag = 4;
constexpr int kDeepForOneBit = 6;

/// Of a run whose model is so deep that late rows or 1 bit may cost score; empty if it is not.
std::string advice_on_depth(const TrainOptions& options, const ExchangePolicy& policy,
                            std::span<const Site> sites) {
  const ModelOptions& model = options.model;
  const bool propagates = model.kind == ModelKind::appnp || model.kind == ModelKind::dagnn;
  const int depth = propagates ? model.hops : model.layers;
  const std::string chain = counted(depth, propagates ? "hop" : "layer");
  const ExchangeOptions& exchange = options.exchange;
  const std::optional<BitBudget>& budget = policy.budget();
  const auto [fewest, most] =
      std::minmax({bit_count(exchange.bits_forward), bit_count(exchange.bits_backward)});
  const auto late = [&](const Site& site) { return policy.late(site); };
  if (policy.stale() && depth >= kDeepForLag && std::ranges::all_of(sites, late)) {
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

/// If rows with what decodes them take more bytes than they would in bf16, at all sites together.
std::string advice_on_narrow_rows(const TrainOptions& options, const ExchangePolicy& policy,
                                  std::span<const Site> sites) {
  ExchangeOptions bf16 = options.exchange;
  bf16.auto_bits.clear();
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
std::string advice_on_lag(const TrainOptions& options, const ExchangePolicy& policy) {
  const int staleness = options.exchange.staleness;
  if (!policy.stale()) return "";
  int oldest = 0, age = 0, synchronous = 0;
  for (int epoch = 0; epoch < options.epochs && oldest < staleness; ++epoch) {
    age = policy.synchronous({epoch}) ? 0 : age + 1;
    synchronous += age == 0 ? 1 : 0;
    oldest = std::max(oldest, age);
  }
  if (oldest == staleness) return "";
  return fmt::format(
      "{} is never reached in {}, {} of them synchronous: halo rows are at most {} old",
      spell_options(fmt::format("--staleness {}", staleness)), counted(options.epochs, "epoch"),
      synchronous, counted(oldest, "epoch"));
}

}  // namespace

void log_exchange_advice(const TrainOptions& options, const ExchangePolicy& policy,
                         std::span<const Site> sites, bool spends, const LogCallback& log) {
  const auto warn = [&](const std::string& advice) {
    if (!advice.empty()) log(LogLevel::warning, advice);
  };
  warn(advice_on_depth(options, policy, sites));
  warn(advice_on_narrow_rows(options, policy, sites));
  const bool keeps = policy.keeps_columns(sites), asked = options.exchange.kept_columns;
  if (keeps && !asked) {
    log(LogLevel::info, "kept columns: columns that dropout drops do not travel");
  }
  if (asked && !keeps) {
    warn(
        spell_options("--kept-columns leaves nothing out: no rows that ranks exchange are what "
                      "ReLU and dropout leave"));
  }
  if (policy.budget() && !sites.empty() && !spends) {
    warn(
        spell_options("--bits auto leaves all rows at the fewest bits: neither dropout nor covers "
                      "save bytes that it could spend; --bits auto:2 gives it more"));
  }
  warn(advice_on_lag(options, policy));
}

}  // namespace heliograph
