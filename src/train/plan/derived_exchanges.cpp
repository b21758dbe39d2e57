#include "train/plan/derived_exchanges.hpp"

#include <algorithm>
#include <utility>

#include "layers/compose.hpp"
#include "staleness/exchange_policy.hpp"
#include "train/options/given.hpp"
#include "train/training_loss.hpp"

namespace heliograph {
namespace {

constexpr int kMostRaisedBits = 8;

Bits raised(Bits bits, bool chosen) {
  if (chosen) bits = std::max(bits, Bits::two);
  return bit_count(bits) < kMostRaisedBits ? static_cast<Bits>(2 * bit_count(bits)) : bits;
}

}  // namespace

ExchangeOptions synchronous_exchange(ExchangeOptions exchange) {
  exchange.staleness = 0;
  return exchange;
}

ExchangeOptions exact_exchange(ExchangeOptions exchange) {
  exchange.bits_forward = exchange.bits_backward = Bits::fp32;
  exchange.kept_columns = false;
  exchange.auto_bits.clear();
  exchange.bits_policy = BitsPolicy::uniform;
  return synchronous_exchange(std::move(exchange));
}

std::vector<ExchangeOptions> trend_exchanges(const ExchangeOptions& exchange) {
  if (!bits_follow_trend(exchange.bits_policy)) return {};
  const auto with_bits = [&](int bits) {
    ExchangeOptions of = exchange;
    for (Bits* each : {&of.bits_forward, &of.bits_backward}) {
      *each = static_cast<Bits>(std::max(bits, bit_count(*each)));
    }
    return of;
  };
  return {synchronous_exchange(with_bits(kMostPolicyBits)), with_bits(kMostPolicyBits / 2)};
}

bool may_change_bits(const TrainOptions& options) {
  const ExchangeOptions& exchange = options.exchange;
  if (exchange.bits_policy == BitsPolicy::uniform) return false;
  const int given = bit_count(std::min(exchange.bits_forward, exchange.bits_backward));
  const int fewest = bit_count(fewest_bits(options.model));
  return given < kMostPolicyBits ||
         (bits_follow_trend(exchange.bits_policy) && fewest < kMostPolicyBits);
}

std::vector<ExchangeOptions> raised_exchanges(const ExchangeOptions& exchange) {
  std::vector<ExchangeOptions> all{exchange};
  const auto may_be_raised = [](const ExchangeOptions& last) {
    return last.staleness > 0 ||
           bit_count(std::min(last.bits_forward, last.bits_backward)) < kMostRaisedBits;
  };
  while (may_be_raised(all.back())) {
    ExchangeOptions next = synchronous_exchange(all.back());
    const bool chosen = !next.auto_bits.empty();
    next.auto_bits.clear();
    next.bits_forward = raised(next.bits_forward, chosen);
    next.bits_backward = raised(next.bits_backward, chosen);
    all.push_back(std::move(next));
  }
  return all;
}

bool guards(const TrainOptions& options, Task task) {
  return options.guard && options.partition.parts > 1 && exchanges_rows(options) &&
         knows_loss_without_inputs(options, task) && raised_exchanges(options.exchange).size() > 1;
}

}  // namespace heliograph
