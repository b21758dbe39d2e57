#pragma once

#include <cstdint>

#include "layers/composition.hpp"

namespace heliograph {

/// A graph convolution: y = A x W (GCN: Kipf and Welling, 2017, equation 2) or y = x W_self + A x W
/// (GraphSAGE: Hamilton et al., 2017), with an optional bias. A is the normalised adjacency of the
/// pass's graph operator. Ranks exchange rows of x, or of x W with `transform_first`; if A x is
/// given, they exchange nothing.
class Convolve final : public Step {
 public:
  struct Options {
    ValueId x = kNoValue;
    ValueId aggregated = kNoValue;  ///< A x, if it is given.
    std::int64_t out = 0;           ///< Columns of y.
    bool self_weight = false;
    bool bias = false;
    bool transform_first = false;  ///< Compute A (x W), not (A x) W; false if A x is given.
  };
  Convolve(Declare& declare, const Options& options);

  void offer(const Pass& pass, RowRange rows) override;
  void gather(const Pass& pass) override;
  void forward(const Pass& pass, RowRange rows) override;
  void backward(const Pass& pass) override;

 private:
  /// The rows that forward sends to other ranks: x, or x W.
  ConstMatrixView exchanged(const Pass& pass) const;
  /// y = x W_self, or y += x W_self if `accumulate`, for these rows.
  void multiply_self(const Pass& pass, RowRange rows, bool accumulate, const float* bias) const;
  const float* bias(const Pass& pass) const;
  bool self_adds_bias(const Pass& pass) const;
  /// out = A^T rows. Calls `make` for each block of rows before offering the block to the halo.
  void pull(const Pass& pass, ConstMatrixView rows, FunctionRef<void(RowRange)> make,
            MatrixView out, FunctionRef<void()> overlap) const;
  void weight_gradient(const Pass& pass, const FeatureView& x, ConstMatrixView d, int weight) const;

  Options options_;
  std::int64_t in_;  ///< Columns of x.
  bool input_gradient_;
  ValueId y_;
  int weight_, self_weight_ = -1, bias_ = -1;
  int forward_site_ = -1, backward_site_ = -1;
  Saved sum_;            ///< A x.
  Scratch transformed_;  ///< x W.
  Scratch gradient_;     ///< dL/d(A x), or dL/d(x W).
  SumScratch sum_scratch_;
};

}  // namespace heliograph
