#pragma once

#include <cstdint>

#include "layers/composition.hpp"

namespace heliograph {

/// A graph convolution: y = A x W, or y = x W_self + A x W, plus a bias where one is asked for.
/// A is the normalised adjacency of the pass's graph operator. Exchanges rows of x, or of x W where
/// that is asked for, unless A x is given.
class Convolve final : public Step {
 public:
  struct Options {
    ValueId x = kNoValue;
    ValueId aggregated = kNoValue;  ///< A x, where it is given.
    std::int64_t out = 0;           ///< Columns.
    bool self_weight = false;
    bool bias = false;
    bool transform_first = false;  ///< A (x W) instead of (A x) W; never where A x is given.
  };
  Convolve(Declare& declare, const Options& options);

  void offer(const Pass& pass, RowRange rows) override;
  void gather(const Pass& pass) override;
  void forward(const Pass& pass, RowRange rows) override;
  void backward(const Pass& pass) override;

 private:
  /// What other ranks are sent in forward: x, or x W.
  ConstMatrixView exchanged(const Pass& pass) const;
  /// y = x W_self or y += x W_self, for these rows.
  void multiply_self(const Pass& pass, RowRange rows, bool accumulate, const float* bias) const;
  const float* bias(const Pass& pass) const;
  bool self_adds_bias(const Pass& pass) const;
  /// out = A^T rows; `make` makes a block of them before it is offered.
  void pull(const Pass& pass, ConstMatrixView rows, FunctionRef<void(RowRange)> make,
            MatrixView out, FunctionRef<void()> overlap) const;
  void weight_gradient(const Pass& pass, const FeatureView& x, ConstMatrixView d, int weight) const;

  Options options_;
  std::int64_t in_;  ///< Columns of x.
  bool input_gradient_;
  ValueId y_;
  int weight_, self_weight_ = -1, bias_ = -1;
  int forward_site_ = -1, backward_site_ = -1;
  Kept sum_;             ///< A x.
  Scratch transformed_;  ///< x W.
  Scratch gradient_;     ///< dL/d(A x), or dL/d(x W).
  SumScratch sum_scratch_;
};

}  // namespace heliograph
