#pragma once

#include "layers/composition.hpp"

namespace heliograph {

/// y = share A x + (1 - share) root, or y = A x without `root`. A is the normalised adjacency of
/// the pass's graph operator. Ranks exchange rows of x forward and of share dL/dy backward; the
/// step saves nothing. One step of personalised PageRank (APPNP: Gasteiger et al., 2019, equation
/// 4, with share 1 - alpha) and the first half of a GCNII layer (Chen et al., 2020, equation 5).
class Propagate final : public Step {
 public:
  struct Options {
    ValueId x = kNoValue;
    ValueId root = kNoValue;  ///< A value with as many columns as x, or none.
    float share = 1;
  };
  Propagate(Declare& declare, const Options& options);

  void offer(const Pass& pass, RowRange rows) override;
  void gather(const Pass& pass) override;
  void forward(const Pass& pass, RowRange rows) override;
  void backward_offer(const Pass& pass, RowRange rows) override;
  void backward(const Pass& pass) override;
  void backward_rows(const Pass& pass, RowRange rows) override;

 private:
  /// The rows that backward sends to other ranks: share dL/dy.
  ConstMatrixView pulled(const Pass& pass) const;

  Options options_;
  ValueId y_;
  int forward_site_, backward_site_ = -1;
  Scratch shared_;  ///< share dL/dy.
  SumScratch sum_scratch_;
};

}  // namespace heliograph
