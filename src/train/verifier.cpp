#include "train/verifier.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "comm/collectives.hpp"
#include "layers/compose.hpp"
#include "staleness/mixed_halo.hpp"
#include "train/plan/derived_exchanges.hpp"

namespace heliograph {
namespace {

std::int64_t bytes_sent(const StaleHalo& halo) {
  return halo.bytes_sent(Direction::forward) + halo.bytes_sent(Direction::backward);
}

}  // namespace

/// Inner products of exact values g, moved ones m and their distance d = m - g.
struct Verifier::Products {
  double gg = 0, gm = 0, mm = 0, dd = 0;

  void add(double g, double m) {
    gg += g * g;
    gm += g * m;
    mm += m * m;
    dd += (m - g) * (m - g);
  }
  Products& operator+=(const Products& other) {
    gg += other.gg;
    gm += other.gm;
    mm += other.mm;
    dd += other.dd;
    return *this;
  }
  VerifiedError error() const {
    if (gg == 0) return {std::numeric_limits<double>::infinity(), 0, 0};
    if (dd == 0) return {};
    return {std::sqrt(dd / gg), mm > 0 ? gm / std::sqrt(gg * mm) : 0, gm / gg};
  }
};

Verifier::Verifier(const RunPlan& plan, Communicator& comm, const PlacedShard& shard,
                   const Parameters& parameters, std::span<const Site> sites, StaleHalo& trained,
                   MemoryAccount* account)
    : comm_(comm),
      parameters_(parameters),
      sites_(sites.begin(), sites.end()),
      inexact_(inexact(trained.policy(), sites)),
      summed_(attends(plan.options().model) ? std::vector<Site>() : inexact_),
      trained_(trained),
      exact_(
          comm, shard,
          ExchangePolicy(exact_exchange(trained.policy().options()), plan.options().epochs, sites),
          sites, plan.blocks(), plan.options().seed, unused_, account),
      outcome_bytes_(MemoryUse::evaluation, account),
      exact_sums_(shard.shard().inner_rows * sum_columns(summed_).all, shard.shard().inner_rows,
                  sites.size(), account),
      sums_(shard.shard().inner_rows * sum_columns(summed_).widest, shard.shard().inner_rows,
            sites.size(), account),
      sum_(comm, Channel::evaluation, account) {
  exact_sums_.record(summed_);
  outcome_bytes_.set(outcome_bytes(parameters, shard.shard().inner_rows, plan.facts().classes, 1));
  if (!trained.policy().stale()) return;
  coded_.emplace(comm, shard,
                 ExchangePolicy(synchronous_exchange(trained.policy().options()),
                                plan.options().epochs, sites),
                 sites, plan.blocks(), plan.options().seed, unused_, account);
}

std::int64_t Verifier::outcome_bytes(const Parameters& parameters, std::int64_t nodes,
                                     std::int64_t classes, int ranks) {
  // Each rank has two outcomes.
  return 16 * ranks * parameters.flat_size() + 8 * nodes * classes;
}

std::vector<Site> Verifier::inexact(const ExchangePolicy& policy, std::span<const Site> sites) {
  std::vector<Site> all;
  std::ranges::copy_if(sites, std::back_inserter(all),
                       [&](const Site& site) { return !site.partial_sums && !policy.exact(site); });
  return all;
}

Verifier::SumColumns Verifier::sum_columns(std::span<const Site> sites) {
  SumColumns columns;
  for (const Site& site : sites) {
    columns.all += padded_stride(site.cols);
    columns.widest = std::max(columns.widest, padded_stride(site.cols));
  }
  return columns;
}

std::int64_t Verifier::sum_bytes(const ModelOptions& model, const ExchangePolicy& policy,
                                 std::span<const Site> sites, std::int64_t nodes) {
  if (attends(model)) return 0;
  const SumColumns columns = sum_columns(inexact(policy, sites));
  return 4 * nodes * (columns.all + columns.widest);
}

Verification Verifier::verify(Clock clock, MakeStep make_step) {
  const auto begin = std::chrono::steady_clock::now();
  // Steps change no weights, but statistics of BatchNorm.
  const std::span<float> statistics =
      parameters_.flat_values().subspan(static_cast<std::size_t>(parameters_.flat_size()));
  const std::vector<float> before(statistics.begin(), statistics.end());
  const std::vector<std::int64_t> trained_sent = trained_.sent();
  const auto all_sent = [&] {
    return bytes_sent(exact_) + bytes_sent(trained_) + (coded_ ? bytes_sent(*coded_) : 0) +
           comm_.bytes_sent(Channel::evaluation) + comm_.bytes_sent(Channel::moments);
  };
  std::int64_t bytes = -all_sent();
  if (coded_) {
    for (StaleHalo::SiteBits& of : trained_.bits()) coded_->set_bits(of.site, std::move(of.bits));
  }
  for (StaleHalo* halo : {&exact_, &trained_, &coded()}) halo->begin_epoch(clock);

  Verification result;
  result.epoch = static_cast<int>(clock.epoch);
  for (int i = 0; i < parameters_.count(); ++i) result.parameters.push_back(parameters_.name(i));
  const Outcome exact = run(exact_, &exact_sums_, make_step);
  const ExchangePolicy& policy = trained_.policy();
  for (const Site& site : inexact_) {
    const Delivery delivery = policy.of(site, clock);
    const bool late = delivery.lag > 0, rounds = delivery.format.bits < 32;
    if (!late && !rounds) continue;
    const auto with = [&](StaleHalo& halo, RecordedSums* recorded) {
      MixedHalo mixed(sites_, exact_);
      mixed.move(site, halo);
      // Late gradients of attention were computed from rows that training had sent.
      for (const Site& sent : sites_) {
        const bool pair = sent.keeps_sent && sent.layer == site.layer;
        if (pair && late && &halo == &trained_) mixed.move_kept(sent, halo);
      }
      return compare(exact, run(mixed, recorded, make_step));
    };
    if (!summed_.empty()) sums_.record(std::span(&site, 1));
    VerifiedPart part = with(trained_, &sums_);
    part.site = site.name;
    part.aggregate = compare_sums(exact_sums_.of(site), sums_.of(site));
    if (rounds) part.bits_alone = (late ? with(coded(), nullptr) : part).gradient.relative;
    result.parts.push_back(std::move(part));
  }
  MixedHalo all_trained(sites_, trained_);
  result.whole = compare(exact, run(all_trained, nullptr, make_step));

  for (StaleHalo* halo : {&exact_, &trained_, &coded()}) halo->drain();
  bytes += all_sent();
  trained_.set_sent(trained_sent);
  std::ranges::copy(before, statistics.begin());
  sum_.sum(std::span(&bytes, 1));
  result.bytes = bytes;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

Verifier::Outcome Verifier::run(Halo& halo, RecordedSums* recorded, MakeStep make_step) {
  Outcome outcome{make_step(halo, recorded), {}};
  const auto take = [&](const auto gradients) {
    outcome.gradients.assign(gradients.begin(), gradients.end());
  };
  take(parameters_.flat_gradients_f32());
  if (outcome.gradients.empty()) take(parameters_.flat_gradients_f64());
  sum_.sum(std::span<double>(outcome.gradients));
  return outcome;
}

VerifiedError Verifier::error_of_ranks(const Products& mine) {
  std::array<double, 4> sums{mine.gg, mine.gm, mine.mm, mine.dd};
  sum_.sum(std::span<double>(sums));
  return Products{sums[0], sums[1], sums[2], sums[3]}.error();
}

std::optional<VerifiedError> Verifier::compare_sums(ConstMatrixView exact, ConstMatrixView moved) {
  if (exact.cols == 0) return std::nullopt;  // A rank without rows has columns, too.
  Products sums;
  for (std::int64_t r = 0; r < exact.rows; ++r) {
    for (std::int64_t c = 0; c < exact.cols; ++c) sums.add(exact.row(r)[c], moved.row(r)[c]);
  }
  return error_of_ranks(sums);
}

VerifiedPart Verifier::compare(const Outcome& exact, const Outcome& moved) {
  VerifiedPart part;
  Products logits, gradients;
  for (std::size_t i = 0; i < exact.logits.size(); ++i) {
    logits.add(exact.logits[i], moved.logits[i]);
  }
  part.logits = error_of_ranks(logits);
  for (int p = 0; p < parameters_.count(); ++p) {
    Products of;
    for (auto i = static_cast<std::size_t>(parameters_.offset(p));
         i < static_cast<std::size_t>(parameters_.offset(p + 1)); ++i) {
      of.add(exact.gradients[i], moved.gradients[i]);
    }
    part.gradients.push_back(of.error().relative);
    gradients += of;
  }
  part.gradient = gradients.error();
  return part;
}

}  // namespace heliograph
