#include "train/plan/exchange_choice.hpp"

#include <algorithm>

#include "layers/compose.hpp"
#include "train/options/given.hpp"

namespace heliograph {

namespace {

/// Rates by which ExchangedRows::automatic is resolved, which must not depend on the machine.
constexpr double kValuesSummedASecond = 1e9;  // By a rank.
/// Of the boundary rows, if no link rate is given. With fewer saved, 1-bit epochs on links as fast
/// as memory took longer (docs/covers.md).
constexpr double kFewestRowsSaved = 0.5;

/// The largest width at which columns are left out if no link rate is given.
constexpr int kMostBitsKept = 4;
/// Values whose masks a rank draws and which it moves, at both ends of messages.
double kept_values_a_second(int bits) { return bits > 8 ? 1e8 : bits > kMostBitsKept ? 3e8 : 1e9; }

/// `covers`: whether partial sums travel, which keep columns backward too unless they may be late.
bool kept_columns_cost_less(const TrainOptions& options, bool covers, int ranks) {
  const ExchangeOptions& exchange = options.exchange;
  const Bits backward =
      covers && !all_late(exchange) ? exchange.bits_backward : exchange.bits_forward;
  const int bits = bit_count(std::max(exchange.bits_forward, backward));
  const double gbps = options.transport.link_gbps;
  const auto dropped = static_cast<double>(options.model.dropout);
  if (dropped == 0 || ranks < 2) return false;
  if (gbps == 0) return bits <= kMostBitsKept;
  // Seconds a value that a rank sends.
  return dropped * bits / ((ranks - 1) * gbps * 1e9) > 1 / kept_values_a_second(bits);
}

bool cover_costs_less(const CoverCounts& counts, const TrainOptions& options, int ranks) {
  const auto saved = static_cast<double>(counts.boundary_rows - counts.rows - counts.sums);
  const double gbps = options.transport.link_gbps;
  if (gbps == 0 || ranks < 2) {
    return saved > kFewestRowsSaved * static_cast<double>(counts.boundary_rows);
  }
  // Seconds an exchange and column, on a link and on a rank in the mean.
  const double bits =
      0.5 * (bit_count(options.exchange.bits_forward) + bit_count(options.exchange.bits_backward));
  const double links = static_cast<double>(ranks) * (ranks - 1);
  return saved * bits / (links * gbps * 1e9) >
         static_cast<double>(counts.summed) / (ranks * kValuesSummedASecond);
}

}  // namespace

bool may_cover(const TrainOptions& options) {
  return options.exchange.rows != ExchangedRows::boundary && !options.reproducible &&
         !attends(options.model) && exchanges_rows(options.model);
}

ExchangeChoice choose_exchange(const TrainOptions& options, const CoverCounts* covers, int ranks) {
  const ExchangeOptions& exchange = options.exchange;
  const bool automatic = exchange.rows == ExchangedRows::automatic;
  const bool takes_covers =
      covers != nullptr && (!automatic || cover_costs_less(*covers, options, ranks));
  return {takes_covers, exchange.kept_columns || !exchange.auto_bits.empty() ||
                            (automatic && kept_columns_cost_less(options, takes_covers, ranks))};
}

ExchangeOptions with_choice(ExchangeOptions options, ExchangeChoice choice) {
  options.rows = choice.covers ? ExchangedRows::cover : ExchangedRows::boundary;
  options.kept_columns = choice.kept_columns;
  return options;
}

}  // namespace heliograph
