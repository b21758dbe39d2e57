#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "heliograph/options.hpp"

namespace heliograph {

/// Changes bits and lag with the trend of the training loss, as the published code of Sylvie (arXiv
/// 2303.01277) does: a moving average m of the losses changes by v = |m' - m| in an epoch. If v
/// never rose in the last five epochs, all bits double and lag ends; if it never fell, they halve
/// and lag begins again. A pure function of the losses.
class BitTrend {
 public:
  /// A run begins with the exchange of its options. `fewest`: that rows of its model may have.
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
  std::deque<double> changes_;  ///< v of the last epochs.
};

}  // namespace heliograph
