#include "train/plan/derived_exchanges.hpp"

#include <algorithm>
#include <utility>

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

ExchangeOptions largest_exchange(ExchangeOptions exchange) {
  if (bits_follow_trend(exchange.bits_policy)) {
    exchange.bits_forward = exchange.bits_backward = static_cast<Bits>(kMostPolicyBits);
  }
  return exchange;
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
