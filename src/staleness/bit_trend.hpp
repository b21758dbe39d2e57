#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "heliograph/options.hpp"

namespace heliograph {

/// Changes bits and lag with the trend of the training loss, as the published code of Sylvie (arXiv
/// 2303.01277) does (docs/auto_bits.md says in what it differs): a moving average m of the losses
/// moves at the speed v = |m' - m| an epoch. If v never rose in the last five epochs, bits double;
/// if it never fell, they halve. Lag ends as bits double, and begins again as they halve. A pure
/// function of the losses.
class BitTrend {
 public:
  /// `given`: the exchange of the first epochs. `fewest`: the bits that rows of the model may have.
  BitTrend(ExchangeOptions given, Bits fewest)
      : given_(std::move(given)), exchange_(given_), fewest_(fewest) {}

  /// Looks at the loss of an epoch that has run.
  void watch(double loss);
  /// The exchange from the next epoch on, before which `epochs` have run, if it differs from that
  /// of the last epoch. Its first epoch is synchronous.
  std::optional<ExchangeOptions> act(int epochs);

 private:
  Bits scaled(Bits bits, bool doubles) const;

  ExchangeOptions given_, exchange_;
  Bits fewest_;
  int watched_ = 0;
  double mean_ = 0;
  std::deque<double> speeds_;  ///< Of the last epochs.
};

}  // namespace heliograph
