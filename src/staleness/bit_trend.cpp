#include "staleness/bit_trend.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

#include "staleness/exchange_policy.hpp"

namespace heliograph {
namespace {

constexpr double kNewest = 0.1;     // The weight of an epoch's loss in the mean.
constexpr std::size_t kSpeeds = 5;  // How many speeds make a trend.
constexpr int kFirstSpeed = 5;      // The first epoch whose speed counts.

}  // namespace

void BitTrend::watch(double loss) {
  const double before = mean_;
  mean_ = watched_ == 0 ? loss : (1 - kNewest) * before + kNewest * loss;
  if (watched_++ < kFirstSpeed) return;
  speeds_.push_back(std::abs(mean_ - before));
  if (speeds_.size() > kSpeeds) speeds_.pop_front();
}

std::optional<ExchangeOptions> BitTrend::act(int epochs) {
  const bool never_rose = std::ranges::is_sorted(speeds_, std::ranges::greater());
  const bool never_fell = std::ranges::is_sorted(speeds_);
  if (speeds_.size() < kSpeeds || never_rose == never_fell) return std::nullopt;
  ExchangeOptions next = exchange_;
  next.bits_forward = scaled(next.bits_forward, never_rose);
  next.bits_backward = scaled(next.bits_backward, never_rose);
  if (next.bits_forward == exchange_.bits_forward &&
      next.bits_backward == exchange_.bits_backward) {
    return std::nullopt;
  }
  next.staleness = never_rose ? 0 : given_.staleness;
  next.warmup_epochs = std::max(given_.warmup_epochs, epochs + 1);  // No row has arrived yet.
  exchange_ = next;
  return next;
}

Bits BitTrend::scaled(Bits bits, bool doubles) const {
  const int count = bit_count(bits);
  return doubles ? static_cast<Bits>(std::min(2 * count, kMostPolicyBits))
                 : static_cast<Bits>(std::max(count / 2, bit_count(fewest_)));
}

}  // namespace heliograph
